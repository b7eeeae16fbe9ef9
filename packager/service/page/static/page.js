// What the page does beside working without this: lists and jobs stay up to date, and logs go on.
"use strict";

const every = 5000; // a running job's curves and ages
const soonest = 1000; // between two reloads, however many events there are
const longestLog = 1 << 20;
const mostNumbers = 5000; // of lines in a text area

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
      part.replaceChildren(...other.childNodes);
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

// A number beside each line of a text area; the marks of errors stay until lines are added or removed.
function renumber(area) {
  const numbers = area.previousElementSibling;
  const lines = area.value.split("\n").length;
  const count = Math.min(lines, mostNumbers);
  area.rows = Math.max(lines, area.parentElement.dataset.rows);
  if (numbers.childElementCount === count) return;
  for (const mark of numbers.querySelectorAll(".wrong")) mark.className = "";
  while (numbers.childElementCount > count) numbers.lastElementChild.remove();
  while (numbers.childElementCount < count) {
    const number = document.createElement("span");
    number.textContent = numbers.childElementCount + 1;
    numbers.append(number);
  }
}

function select(area, line) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((length, text) => length + text.length + 1, 0);
  area.focus({ preventScroll: true });
  area.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  area.previousElementSibling.children[line - 1]?.scrollIntoView({ block: "center" });
}

const areas = [...document.querySelectorAll(".numbered textarea")];
for (const area of areas) area.addEventListener("input", () => renumber(area));
for (const link of document.querySelectorAll("a[data-line]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    select(document.getElementById(link.hash.slice(1)), Number(link.dataset.line));
  });
}
const wrong = areas.find((area) => area.dataset.line);
if (wrong) select(wrong, Number(wrong.dataset.line));

// The overlays and options of the package that was chosen in the form of a definition.
const chooser = document.querySelector("[data-choices]");
let chosen = 0;
async function choose() {
  const number = ++chosen;
  const body = new URLSearchParams(new FormData(chooser.form));
  body.set("action", "choices");
  try {
    const answer = await fetch(location.href, { method: "POST", body, headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok || number !== chosen) return;
    for (const part of document.querySelectorAll("[data-choice]")) {
      const focused = part.contains(document.activeElement) && document.activeElement.name;
      part.replaceChildren(...(fresh.getElementById(part.id)?.childNodes ?? []));
      if (focused) part.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
    }
  } catch {
    // the server is away: what is shown stays
  }
}
// A package has values of its own, in place of the template and the values of the example.
function withoutExample(form) {
  if (!("example" in form.dataset) || !form.elements.source.value) return;
  form.elements.task_template_name.value = "";
  const texts = [...form.querySelectorAll(".numbered textarea")];
  for (const text of [form.elements.description, ...texts]) if (text.value === text.defaultValue) text.value = "";
  texts.forEach(renumber);
}

if (chooser) {
  chooser.parentElement.hidden = true; // without a script, it asks for them
  chooser.form.elements.source.addEventListener("change", () => withoutExample(chooser.form));
  for (const name of ["source", "overlay"]) chooser.form.elements[name].addEventListener("change", choose);
}

document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden && address) reload(); });
addEventListener("pagehide", () => { source?.close(); source = null; address = ""; });
addEventListener("pageshow", listen);
listen();
followLog(null);
setInterval(() => { if (address) reload(); }, every);

const log = document.getElementById("log");
if (log) log.scrollTop = log.scrollHeight;
