"""The page in a real browser."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from playwright.sync_api import ViewportSize, expect

from packager.service.access.issuer_tokens import Issuer
from packager.service.access.sign_in import Client, Sessions
from packager.service.config import OidcConfig
from packager.service.page import app, html
from packager.service.page.html import visible
from tests import browser
from tests.service import bodies, issuer
from tests.service.api.conftest import COUNTDOWN
from tests.service.page.conftest import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.service.issuer import FakeIssuer

pytestmark = pytest.mark.thorough

PATIENCE = 30_000.0
"""Milliseconds that a busy machine may take."""


class Served(Site):
    """A site on a port of this machine."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                app.make(self.server), host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1
            )
        )
        self._thread = threading.Thread(target=self._uvicorn.run)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            self.until(lambda: self._uvicorn.started, "the server to start")
            port = self._uvicorn.servers[0].sockets[0].getsockname()[1]
            self.origin = f"http://127.0.0.1:{port}"
            client = httpx.Client(base_url=self.origin, timeout=30)
            self.client = client
            with client:
                yield
        finally:
            self._uvicorn.should_exit = True
            self._thread.join(30)


@pytest.fixture(scope="module", autouse=True)
def _short_pauses() -> Iterator[None]:
    """Let the script of the page pause for a tenth of its time."""
    script = html._FILES["page.js"]  # noqa: SLF001 - what the server answers with
    for pause in (b"every = 5000;", b"soonest = 1000;"):
        assert script.count(pause) == 1
        script = script.replace(pause, pause.replace(b"0;", b";"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(html._FILES, "page.js", script)  # noqa: SLF001
        yield


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with definitions, and an issuer at another site."""
    site = Served(tmp_path_factory.mktemp("page") / "server.db")
    with issuer.running("localhost") as fake, site.running():
        trusts(site, fake)
        assert site.post("/v1/definitions", {**COUNTDOWN, "description": "Counts down"}).status_code == 201
        template = {"name": "digits-task", "template": bodies.TEMPLATE, "description": "One container, one claim"}
        assert site.post("/v1/templates", template).status_code == 201
        assert site.post("/v1/definitions", bodies.definition()).status_code == 201
        changed = bodies.definition(
            user_values_description=bodies.DESCRIPTION.replace("Batch size", "Images in a batch"),
            description="Trains on digits, on CPUs",
        )
        assert site.call("PUT", "/v1/definitions/digits", json=changed).status_code == 200
        yield site


@pytest.fixture(scope="module")
def releases(served: Served) -> dict[str, str]:
    """The releases of jobs by status: one job for each status."""
    made = {
        status: served.created(creator=creator, name=name)
        for status, creator, name in [
            ("succeeded", "ada", "nightly"),
            ("failed", "grace", "demo"),
            ("deleted", "linus", "demo"),
            ("pending", "ada", "demo"),
        ]
    }
    cluster = served.cluster
    cluster.pod(made["succeeded"], "Succeeded", exit_code=0)
    cluster.end(made["succeeded"], "Complete")
    cluster.logs[f"{made['failed']}-x2x9p"] = ["3\n", "2\n", "\x1b[31mKilled\x1b[0m\n"]
    cluster.pod(made["failed"], "Failed", exit_code=137, reason="OOMKilled")
    cluster.end(made["failed"], "Failed")
    assert served.post(f"/v1/jobs/{made['deleted']}/cancel").status_code == 202
    made["running"] = served.post("/v1/jobs", bodies.filled()).json()["release"]
    served.until(lambda: ("Job", made["running"]) in cluster.objects, "the Job")
    cluster.logs[f"{made['running']}-x2x9p"] = [
        f'{{"step": {step}, "loss": {2.3 / (1 + step / 40):.4f}, "accuracy": {1 - 0.9 / (1 + step / 60):.4f}}}\n'
        for step in range(0, 400, 10)
    ]
    cluster.pod(made["running"], "Running")
    for status, release in made.items():
        served.status(release, status)
    return made


def trusts(site: Served, fake: FakeIssuer) -> None:
    """Let people sign in to a site with an issuer."""
    oidc = Issuer(OidcConfig(issuer=fake.url, audience="mlpack", roles={"ml-users": "user"}, client_id=issuer.CLIENT))
    site.server.client = Client(oidc, issuer.CLIENT, issuer.SECRET, site.origin)
    site.server.sessions = Sessions(site.server.sealer, site.server.store, site.server.client)


def signed_in(page: Page, served: Served, role: str = "admin") -> Page:
    page.set_default_timeout(PATIENCE)
    page.goto(f"{served.origin}/jobs")
    expect(page).to_have_title("Sign in · mlpack")
    if served.server.client:
        page.get_by_text("With a token").click()
    page.get_by_label("Token").fill(served.tokens[role])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    return page


def test_browser_creates_a_job_and_shows_it_until_the_end(chromium: Browser, served: Served) -> None:
    expect.set_options(timeout=PATIENCE)
    with chromium.new_context() as context:
        page = signed_in(context.new_page(), served, "user")
        page.get_by_role("link", name="New job").click()
        page.get_by_role("link", name="countdown").click()
        page.get_by_role("button", name="Create the job").click()
        summary = page.get_by_role("alert")
        expect(summary).to_contain_text("process.train.number: is missing: Where to start")
        summary.get_by_role("link").click()
        number = page.get_by_label("process.train.number")
        expect(number).to_be_focused()
        number.fill("40")
        page.get_by_role("button", name="Show the manifests").click()
        expect(page.get_by_text("These manifests would be applied")).to_be_visible()
        expect(page.get_by_text("kind: Job")).to_be_visible()
        page.get_by_role("button", name="Create the job").click()
        release = page.get_by_role("heading", level=1).inner_text()
        status = page.get_by_role("status")
        expect(status).to_have_text("pending")
        page.evaluate("window.sameDocument = true")
        served.until(lambda: ("Job", release) in served.cluster.objects, "the Job")
        pod = f"{release}-x2x9p"
        log = served.cluster.logs[pod] = [f'{{"step": {step}, "loss": {10 / (step + 1):.3f}}}\n' for step in range(3)]
        served.cluster.pod(release, "Running")
        expect(status).to_have_text("running")
        expect(page.locator("#log")).to_contain_text('{"step": 2, "loss": 3.333}')
        last = page.get_by_role("figure", name="loss").get_by_role("cell")
        expect(last).to_have_text(["2", "3.333", "3.333", "10"])
        log.append('{"step": 3, "loss": 2.5}\n')
        expect(last).to_have_text(["3", "2.5", "2.5", "10"])
        log.append("<b>\x1b[31mred\x1b[0m</b>\u202e\x07\n")
        expect(page.locator("#log")).to_contain_text("<b>red</b>\ufffd\ufffd")
        served.cluster.pod(release, "Succeeded", exit_code=0)
        served.cluster.end(release, "Complete")
        expect(status).to_have_text("succeeded")
        expect(page.get_by_text("Cancel…")).to_have_count(0)
        assert page.evaluate("window.sameDocument"), "the page was loaded again"
        del served.cluster.objects["Pod", pod], served.cluster.objects["Job", release]
        page.reload()
        expect(page.locator("#log")).to_contain_text('{"step": 3, "loss": 2.5}')
        expect(last).to_have_text(["3", "2.5", "2.5", "10"])


def test_five_runs_of_a_definition_are_compared_on_one_page(chromium: Browser, served: Served) -> None:
    expect.set_options(timeout=PATIENCE)
    cluster = served.cluster
    for batch in (8, 16, 32, 64, 128):
        filled = bodies.filled(creator="marie", description=f"batch of {batch}")
        filled["process"]["eval"]["batchSize"] = batch
        release = served.post("/v1/jobs", filled).json()["release"]
        served.until(lambda release=release: ("Job", release) in cluster.objects, "the Job")  # type: ignore[misc]
        cluster.logs[f"{release}-x2x9p"] = [
            f'{{"step": {step}, "loss": {0.04 + 2 / (1 + step * batch / 600):.4f}, "lr": {1 / (9 + step):.4f}}}\n'
            for step in range(0, 401 - batch, 8)
        ]
        cluster.pod(release, "Succeeded", exit_code=0)
        cluster.end(release, "Complete")
        served.status(release, "succeeded")
    with chromium.new_context(viewport={"width": 1280, "height": 1160}) as context:
        page = signed_in(context.new_page(), served)
        page.goto(f"{served.origin}/jobs?definition=digits&creator=marie")
        page.get_by_role("columnheader", name="loss").get_by_role("link").click()
        first = page.locator("tbody tr").first
        expect(first).to_contain_text("batch of 128")
        boxes = page.get_by_role("checkbox")
        expect(boxes).to_have_count(5)
        for box in boxes.all():
            box.check()
        page.evaluate("document.getElementById('list').append(document.createElement('p')); reload()")
        expect(page.locator("#list > p")).to_have_count(0)
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("5 jobs compared")
        expect(page.locator("svg .line.s4")).not_to_have_count(0)
        page.get_by_role("link", name="logarithmic").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("5 jobs compared")
        strip = page.locator(".strip").nth(20)
        strip.hover()
        assert strip.evaluate("strip => getComputedStyle(strip).fill") != "rgba(0, 0, 0, 0)"
        assert re.fullmatch(r"step \d+(\nbatch of \d+: [\d.]+){5}", str(strip.text_content()))
        rows = page.get_by_role("region").get_by_role("row")
        batches = rows.filter(has_text="process.eval.batchSize").get_by_role("cell")
        expect(batches).to_have_text(["128", "64", "32", "16", "8"])
        browser.picture(page, "compare")


def test_page_works_without_javascript_and_by_keyboard(chromium: Browser, served: Served) -> None:
    expect.set_options(timeout=PATIENCE)
    with chromium.new_context(java_script_enabled=False) as context:
        page = signed_in(context.new_page(), served, "user")
        page.goto(f"{served.origin}/new/countdown")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.get_by_label("process.train.number").fill("3")
        page.get_by_label("process.train.number").press("Enter")
        expect(page.get_by_role("status")).to_have_text("pending")
        cancel = page.get_by_text("Cancel…")
        cancel.focus()
        cancel.press("Enter")
        button = page.get_by_role("button", name="Cancel the job")
        button.focus()
        button.press("Enter")
        release = page.get_by_role("heading", level=1).inner_text()
        served.status(release, "deleted")
        page.reload()
        expect(page.get_by_role("status")).to_have_text("deleted")
        page.get_by_role("button", name="Sign out").press("Enter")
        expect(page).to_have_title("Sign in · mlpack")


def test_people_sign_in_and_out_with_the_issuer_in_a_browser(chromium: Browser, served: Served) -> None:
    """The issuer is another site, so the SameSite rules of cookies apply as in production; JavaScript is disabled."""
    expect.set_options(timeout=PATIENCE)
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{served.origin}/templates/countdown-task?revision=1")
        button = page.get_by_role("link", name="Sign in with localhost")
        button.focus()
        button.press("Enter")
        expect(page).to_have_title("Issuer")
        back = page.get_by_role("link", name="Continue as ada").get_attribute("href")
        page.get_by_role("link", name="Continue as ada").click()
        expect(page.get_by_role("heading", name="countdown-task", level=1)).to_be_visible()
        expect(page).to_have_url(f"{served.origin}/templates/countdown-task?revision=1")
        expect(page.get_by_text("ada user")).to_be_visible()
        page.goto(str(back))
        expect(page.get_by_role("alert")).to_contain_text("this browser has not begun to sign in")
        page.goto(f"{served.origin}/jobs")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("status")).to_contain_text("You have signed out here")
        page.goto(f"{served.origin}/jobs")
        expect(page).to_have_title("Sign in · mlpack")
        page.goto(f"{served.origin}/sign-in?out=issuer")
        expect(page.get_by_text("may still know you in this browser")).to_be_visible()


SIZE: ViewportSize = {"width": 1000, "height": 720}
SMALLEST: ViewportSize = {"width": 320, "height": 640}
VIEWS = {
    "overview": "/overview",
    "jobs": "/jobs",
    "filters": "/jobs?creator=nothing",
    "runs": "/jobs?definition=countdown",
    "comparison": "/compare?job={running}&job={failed}",
    "running": "/jobs/{running}",
    "failed": "/jobs/{failed}",
    "deleted": "/jobs/{deleted}",
    "choice": "/new",
    "form": "/new/digits",
    "definitions": "/definitions",
    "definition": "/definitions/digits",
    "templates": "/templates",
    "template": "/templates/digits-task",
    "tokens": "/tokens",
    "not found": "/jobs/nothing",
    "missing": "/nowhere",
    "sign in refused": "/sign-in/answer?error=x&state=y",
    "signed out": "/sign-in?out=issuer",
}
PICTURED = {"jobs": "jobs", "running": "job", "form": "new-job", "definition": "definition"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits_a_small_screen(
    chromium: Browser, served: Served, releases: dict[str, str], scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect.set_options(timeout=PATIENCE)
    program = browser.axe()
    problems: list[str] = []
    requested: list[str] = []
    monkeypatch.setattr(served.server, "is_demo", scheme == "dark")
    with chromium.new_context(color_scheme="dark" if scheme == "dark" else "light", viewport=SIZE) as context:
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if "Policy" in message.text else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(f"{served.origin}/sign-in")
        problems += browser.barriers(page, program)
        signed_in(page, served)
        for name, path in VIEWS.items():
            page.set_viewport_size(SIZE)
            page.goto(served.origin + path.format(**releases))
            if name == "form":
                page.get_by_role("button", name="Create the job").click()
                expect(page.get_by_role("alert")).to_be_visible()
            page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
            problems += [f"{name}: {problem}" for problem in browser.barriers(page, program)]
            page.set_viewport_size(SMALLEST)
            if page.evaluate("document.documentElement.scrollWidth") > 320:
                problems.append(f"{name}: is wider than 320 pixels")
            if scheme == "light":
                problems += [f"{name}, 320 pixels: {problem}" for problem in browser.barriers(page, program)]
        context.clear_cookies()
        signed_in(page, served, "viewer")
        page.goto(f"{served.origin}/tokens")
        expect(page.get_by_role("heading", level=1)).to_have_text("The caller may not do this")
        problems += [f"forbidden: {problem}" for problem in browser.barriers(page, program)]
    assert problems == []
    assert {url for url in requested if not url.startswith(f"{served.origin}/")} == set()


LINES = [
    "",
    "\r",
    "\r\r\n\r",
    "10 %\r20 %\r\nend",
    "a\rb\r\rc\r\r\n\n\rd\n",
    "\x1b[31mred\x1b[0m\r\n",
    "\x1b]8;;https://example.com\x07link\x1b]8;;\x1b\\ \x1b[",
    "a\x00b\u202ec\ufeff\x85d\n",
    "e\u00adf\u180eg\U000e0041h\U0001f600\ti\ud800j\u0301\n",
    "\r\x1b[K\r\n",
]
PUMPS = ["x", "\r", "a\r", "\r\x00", "\x1b", "\x1b[", "\x1b[0;", "\x1b]", "\x1b]x\x1b", "\x1b[ ", "\n", "\r\n\r"]


def test_script_shows_log_lines_as_the_server_does_in_linear_time(chromium: Browser) -> None:
    """Quadratic time once let a long line of a program block a tab."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto("about:blank")
        page.add_script_tag(path=html.__file__.replace("html.py", "static/page.js"))
        assert page.evaluate("lines => lines.map(visible)", LINES) == [visible(line) for line in LINES]
        seconds = """([pump, count]) => {
            const line = pump.repeat(count), begun = performance.now();
            for (const text of [line, line + "!", line + "\\n", "\x1b[" + line]) visible(text);
            return (performance.now() - begun) / 1000;
        }"""
        slow = {pump: time for pump in PUMPS if (time := page.evaluate(seconds, [pump, 200_000 // len(pump)])) > 2}
        assert slow == {}


def test_pictures_of_the_documentation_exist_and_are_used(
    chromium: Browser, served: Served, releases: dict[str, str]
) -> None:
    """`make pictures` writes the pictures, whose bytes depend on the fonts of a machine."""
    for scheme, names in {"light": ("jobs", "form", "definition"), "dark": ("running",)}.items():
        with chromium.new_context(color_scheme="dark" if scheme == "dark" else "light", viewport=SIZE) as context:
            page = signed_in(context.new_page(), served)
            for name in names:
                page.goto(served.origin + VIEWS[name].format(**releases))
                browser.picture(page, PICTURED[name])
    pictures = {path.stem for path in browser.PICTURES.glob("*.png")}
    assert pictures == {*PICTURED.values(), "compare"}
    guide = (browser.PICTURES.parent / "service/page.md").read_text(encoding="utf-8")
    assert [name for name in pictures if f"](../pictures/{name}.png)" not in guide] == []
    assert all(path.stat().st_size < 150_000 for path in browser.PICTURES.glob("*.png"))
