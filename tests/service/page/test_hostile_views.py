"""Texts of others in a real browser: no script runs, no request leaves the origin, and each text is shown as text."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests import browser
from tests.service import bodies
from tests.service.page.test_page import PATIENCE, Served, signed_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Dialog, Page

pytestmark = pytest.mark.thorough

MARKUP = (
    "<script data-evil>evil()</script>",
    "<img data-evil src=//evil.example/i onerror=evil()>",
    "<svg data-evil onload=evil()><script>evil()</script></svg>",
    "</textarea><b data-evil onclick=evil()>",
    "</pre></title></style></script><script data-evil>evil()</script>",
    "\"'><input data-evil autofocus onfocus=evil()>",
    "' onmouseover='evil()' data-evil='",
    "<iframe data-evil srcdoc='<script>parent.evil()</script>'></iframe>",
    "<base data-evil href=//evil.example/><link data-evil rel=stylesheet href=//evil.example/c>",
    "<meta data-evil http-equiv=refresh content='0;url=//evil.example/'>",
    "<form data-evil action=//evil.example/><button>Sign in</button></form>",
    "<a data-evil href=javascript:evil()>x</a> javascript:evil()",
    "--><object data-evil data=//evil.example/></object><!--",
    "&lt;img data-evil src=x&gt; &#60;img data-evil&#62; \\x3cimg data-evil\\x3e",
    "${evil()} {{evil()}} {{7*7}} <%= evil() %>",
)
CONTROLS = "\x1b]0;evil\x07\x1b[2J\x1b[31m\u202egnp.exe\u202c\u200b\u2066\x85\u2028\ufeff\u00ad\u180e"
INVISIBLE = "\x1b\x07\x00\x85\u202e\u202c\u200b\u2066\u2028\ufeff\u00ad\u180e"
HOSTILE = " ".join(MARKUP)
MARK = "<img data-evil src=//evil.example/i onerror=evil()>"
EVERYTHING = f"{HOSTILE} {CONTROLS}"

PROBE = """() => ({
    ran: window.ran,
    elements: [...document.querySelectorAll('[data-evil], iframe, base, object, embed, meta[http-equiv]')]
        .map(element => element.outerHTML),
    inline: [...document.scripts].filter(script => !script.src).length,
    links: [...document.querySelectorAll('[href], [src], [action]')]
        .flatMap(element => ['href', 'src', 'action'].map(name => element.getAttribute(name)))
        .filter(text => text && !/^(\\/(?!\\/)|#|\\?|http:\\/\\/127\\.0\\.0\\.1:)/.test(text)),
    text: document.body.innerText + [...document.querySelectorAll('input, textarea')]
        .map(field => ` ${field.placeholder} ${field.title}`).join(''),
    values: [...document.querySelectorAll('input, textarea')].map(field => field.value).join(' '),
})"""


class Watched:
    """A page, and everything that hostile text could have caused in it."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.events: list[str] = []
        page.add_init_script("window.ran = []; window.evil = () => window.ran.push(location.href);")
        page.on("dialog", self._dismiss)
        page.on("popup", lambda popup: self.events.append(f"popup {popup.url}"))
        page.on("download", lambda download: self.events.append(f"download {download.url}"))
        page.on("pageerror", lambda error: self.events.append(f"error {error}"))
        page.on("request", lambda request: self._requested(request.url))

    def _dismiss(self, dialog: Dialog) -> None:
        self.events.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _requested(self, url: str) -> None:
        if not url.startswith(f"{self.origin}/"):
            self.events.append(f"request {url}")

    def _probe(self) -> tuple[dict[str, Any], str]:
        """Return the report of PROBE, and the text of the view."""
        probe = self.page.evaluate(PROBE)
        return probe, " ".join(f"{probe['text']} {probe['values']}".split())

    def problems(self, *, shows: str) -> list[str]:
        """List the effects of hostile text in the present view, and its lack of the text `shows`."""
        end = time.monotonic() + PATIENCE / 1_000
        probe, shown = self._probe()
        while shows not in shown and time.monotonic() < end:  # the lines of a log come after the page
            self.page.wait_for_timeout(100)
            probe, shown = self._probe()
        problems: list[str] = (
            [f"ran in {url}" for url in probe["ran"]] + probe["elements"] + self.events + probe["links"]
        )
        self.events = []
        if probe["inline"]:
            problems.append(f"{probe['inline']} inline scripts")
        if shows not in shown:
            problems.append(f"does not show {shows!r}: {shown[:2000]}")
        # The value of a field is what its user gets back, so it keeps every character.
        problems += [f"shows {character!r}" for character in INVISIBLE if character in probe["text"]]
        return problems


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A site on which each free text of every user, program and cluster is hostile."""
    site = Served(tmp_path_factory.mktemp("hostile") / "server.db")
    with site.running():
        text = bodies.TEMPLATE + "{# " + HOSTILE.replace("{{", "{ {").replace("{%", "{ %") + " #}\n"
        for revision in (1, 2):
            body = {"name": "h", "template": f"{text}# {revision}\n", "description": EVERYTHING}
            method, path = ("POST", "/v1/templates") if revision == 1 else ("PUT", "/v1/templates/h")
            answer = site.call(method, path, json=body)
            assert answer.status_code in (200, 201), answer.text
        description = bodies.DESCRIPTION.replace("(Required) What the job does", json.dumps(f"(Required) {EVERYTHING}"))
        definition = bodies.definition(
            name="h", task_template_name="h", description=EVERYTHING, user_values_description=description,
            user_values_example=bodies.EXAMPLE.replace("Trains on digits", json.dumps(EVERYTHING)),
        )  # fmt: skip
        answer = site.post("/v1/definitions", definition)
        assert answer.status_code == 201, answer.text
        changed = {**definition, "description": f"{EVERYTHING} again", "user_values_description": description + "\n"}
        answer = site.call("PUT", "/v1/definitions/h", json=changed)
        assert answer.status_code == 200, answer.text
        yield site


@pytest.fixture(scope="module")
def jobs(hostile: Served) -> dict[str, str]:
    """The releases of a running and of a failed job whose programs, pods and events are hostile."""
    filled = bodies.filled(
        taskDef="h",
        description=EVERYTHING,
        process={"train": {"saveStep": EVERYTHING}, "export": {"signatureMap": "x"}},
    )
    made = {}
    for status in ("running", "failed"):
        answer = hostile.post("/v1/jobs", filled)
        assert answer.status_code == 201, answer.text
        made[status] = release = answer.json()["release"]
        hostile.until(lambda: ("Job", release) in hostile.cluster.objects, "the Job")  # noqa: B023
        lines = [f"{text}\n" for text in (*MARKUP, f"{CONTROLS}\x00", EVERYTHING, "<b>" * 20_000)]
        metrics = [json.dumps({"step": step, MARKUP[0]: step, MARK: 1 / (1 + step)}) + "\n" for step in range(3)]
        hostile.cluster.logs[f"{release}-x2x9p"] = [*lines, *metrics, f"{MARK} at the end\n"]
    hostile.cluster.pod(made["running"], "Running")
    hostile.cluster.pod(made["failed"], "Failed", exit_code=1, reason=EVERYTHING)
    pod = hostile.cluster.objects["Pod", f"{made['failed']}-x2x9p"]
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = EVERYTHING
    pod["status"] |= {"message": EVERYTHING, "reason": EVERYTHING}
    pod["spec"]["nodeName"] = EVERYTHING
    hostile.cluster.put(pod)
    hostile.cluster.end(made["failed"], "Failed")
    for status, release in made.items():
        hostile.status(release, status)
    return made


ADDRESS = quote(HOSTILE[:900])
IN_PATH = quote(MARK, safe="")
VIEWS: dict[str, tuple[str, str]] = {
    "jobs": ("/jobs", ""),
    "jobs by a text": (f"/jobs?q={ADDRESS}", MARK),
    "jobs by a creator": (f"/jobs?creator={ADDRESS}", MARK),
    "jobs by a status": (f"/jobs?status={ADDRESS}", ""),
    "jobs after a cursor": (f"/jobs?cursor={ADDRESS}&after={ADDRESS}", ""),
    "a running job": ("/jobs/{running}", f"{MARK} at the end"),
    "a failed job": ("/jobs/{failed}", MARK),
    "a pod of a job": (f"/jobs/{{running}}?pod={ADDRESS}", ""),
    "no such job": (f"/jobs/{IN_PATH}", ""),
    "no such page": (f"/{IN_PATH}", ""),
    "definitions for a job": ("/new", MARK),
    "a form": ("/new/h", MARK),
    "a form with the values of a job": ("/new/h?values_of={running}", MARK),
    "a form with the values of no job": (f"/new/h?values_of={ADDRESS}", MARK),
    "definitions": ("/definitions", MARK),
    "a definition": ("/definitions/h", MARK),
    "its first revision": ("/definitions/h?revision=1", MARK),
    "no such revision": (f"/definitions/h?revision={ADDRESS}", ""),
    "templates": ("/templates", MARK),
    "a template": ("/templates/h", MARK),
    "projects": ("/projects", ""),
    "tokens": ("/tokens", ""),
    "an issuer's refusal": (f"/sign-in/answer?error={ADDRESS}&error_description={ADDRESS}&state={ADDRESS}", ""),
    "signing in": (f"/sign-in?then={ADDRESS}&out={ADDRESS}", ""),
}


def _submit(page: Page, button: str, fields: dict[str, str]) -> None:
    for selector, value in fields.items():
        page.locator(selector).first.fill(value)
    page.get_by_role("button", name=button).first.click()
    page.wait_for_load_state()


def _errors_of_a_job(page: Page, site: Served) -> None:
    page.goto(f"{site.origin}/new/h")
    _submit(page, "Create the job", {"input[type=text], textarea": EVERYTHING})


def _refusal_of_the_cluster(page: Page, site: Served) -> None:
    site.cluster.refused["Job"] = EVERYTHING
    page.goto(f"{site.origin}/new/h?values_of={site.get('/v1/jobs').json()['items'][0]['release']}")
    _submit(page, "Create the job", {})
    site.cluster.refused.clear()


def _preview(page: Page, site: Served) -> None:
    page.goto(f"{site.origin}/new/h?values_of={site.get('/v1/jobs').json()['items'][0]['release']}")
    _submit(page, "Show the manifests", {})


FORMS: dict[str, Callable[[Page, Served], None]] = {
    "errors of a job": _errors_of_a_job,
    "a refusal of the cluster": _refusal_of_the_cluster,
    "a preview": _preview,
}


def test_hostile_texts_cause_nothing_in_a_browser(chromium: Browser, hostile: Served, jobs: dict[str, str]) -> None:
    expect.set_options(timeout=PATIENCE)
    problems: dict[str, Any] = {}
    with chromium.new_context() as context:
        watched = Watched(context.new_page(), hostile.origin)
        page = signed_in(watched.page, hostile)
        for name, (path, text) in VIEWS.items():
            page.goto(hostile.origin + path.format(**jobs))
            page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
            problems[name] = watched.problems(shows=text)
        for name, send in FORMS.items():
            send(page, hostile)
            problems[name] = watched.problems(shows=MARK)
    assert {name: found for name, found in problems.items() if found} == {}
