// What the page does beside working without this: lists and jobs stay up to date, and logs go on.
"use strict";

const every = 5000; // a running job's curves and ages
const soonest = 1000; // between two reloads, however many events there are
const longestLog = 1 << 20;

// Put the parts of a fresh copy of this page in the place of those that are shown.
let reloading = null;
let again = false;
async function reload() {
  if (reloading) { again = true; return; }
  reloading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected && new URL(answer.url).pathname.endsWith("/sign-in")) { location.reload(); return; }
    if (answer.status === 404) { showDeleted(); return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && "events" in part.dataset) part.dataset.events = other.dataset.events;
      if (!other || other.innerHTML === part.innerHTML) continue;
      if (part.querySelector("details[open]")) continue; // somebody is about to decide
      const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
      const chosen = new Set([...part.querySelectorAll("input:checked")].map((box) => box.value));
      part.replaceChildren(...other.childNodes);
      for (const box of part.querySelectorAll("input[type=checkbox]")) box.checked = chosen.has(box.value);
      if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    }
    followLog(fresh.getElementById("log"));
    listen();
  } catch {
    // the server is away: the next event or the next round tries again
  } finally {
    setTimeout(() => {
      const wanted = again && address; // no events: nobody looks, or the job was deleted meanwhile
      reloading = null;
      again = false;
      if (wanted) reload();
    }, soonest);
  }
}

// The job of this page was deleted: without an address of events, nothing is requested any more.
function showDeleted() {
  const status = document.getElementById("status");
  if (!status) return; // not the page of a job
  status.textContent = "This job was deleted.";
  document.getElementById("actions")?.remove();
  document.querySelector("[data-events]")?.removeAttribute("data-events");
  listen();
}

// Listen to events for as long as somebody looks.
let source = null;
let address = "";
function listen() {
  const part = document.querySelector("[data-events]");
  const wanted = (!document.hidden && part?.dataset.events) || "";
  if (wanted.split("?")[0] === address) return;
  source?.close();
  address = wanted.split("?")[0];
  source = address ? new EventSource(wanted) : null;
  source?.addEventListener("status", reload);
}

// What a terminal shows of a line: what follows the last carriage return, but for those at its end.
// Without patterns: `\r+\n` and `[^\n]*\r` look at a line once for each of its characters.
function shown(line) {
  let end = line.length;
  while (end && line[end - 1] === "\r") end -= 1;
  return end ? line.slice(line.lastIndexOf("\r", end - 1) + 1, end) : "";
}

// Log lines come from programs: they are text, and what hides text becomes visible.
function visible(text) {
  return text
    .replace(/\x1b(?:\[[0-?]*[ -\/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g, "")
    .split("\n").map(shown).join("\n")
    .replace(/(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

let following = "";
async function followLog(fresh) {
  const log = document.getElementById("log");
  if (!log) return;
  const path = fresh ? fresh.dataset.log : log.dataset.log;
  if (fresh && !path && !following && log.textContent !== fresh.textContent) {
    log.textContent = fresh.textContent; // the job has ended: its whole log
    log.hidden = fresh.hidden;
  }
  if (!path || following) return;
  following = path;
  try {
    const answer = await fetch(path);
    if (!answer.ok) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let first = true;
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const end = value.lastIndexOf("\n") + 1; // no line ends in the rest
      if (!end) { rest = (rest + value).slice(-longestLog); continue; }
      const lines = rest + value.slice(0, end);
      rest = value.slice(end);
      const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.textContent = ((first ? "" : log.textContent) + visible(lines)).slice(-longestLog);
      log.hidden = first = false;
      if (isAtEnd) log.scrollTop = log.scrollHeight;
    }
  } catch {
    // the next round tries again
  } finally {
    setTimeout(() => { following = ""; }, every);
  }
}

document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden && address) reload(); });
addEventListener("pagehide", () => { source?.close(); source = null; address = ""; });
addEventListener("pageshow", listen);
listen();
followLog(null);
setInterval(() => { if (address) reload(); }, every);

const log = document.getElementById("log");
if (log) log.scrollTop = log.scrollHeight;
