"""Test the site of docs/ in a browser: links, search, narrow screens, dark colors, barriers, and no other host."""

from __future__ import annotations

import functools
import http.server
import threading
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from playwright.sync_api import ViewportSize

from tests import browser
from tests.testbed.places import only_one
from tools import site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.thorough

WIDE = ViewportSize(width=1280, height=800)
NARROW = ViewportSize(width=320, height=640)
CHECKED = ("", "guides/mlcubes/", "publish/", "import/", "comparison/", "search/?q=claim")
"""The pages that axe-core reads: code in several languages, tables, also wide ones, and results of a search."""


class Document(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value for key, value in attrs if value}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        self.links |= {values[key] for key in ("href", "src") if key in values}
        self.loaded |= {values[key] for key in ("href", "src") if key in values and tag != "a"}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Path:
    """The files of the site, which the first process of a run makes for all."""
    folder = tmp_path_factory.getbasetemp().parent / f"site-{testrun_uid}"
    with only_one(folder):
        if not (folder / "site").is_dir():
            site.build(folder / "unfinished")
            (folder / "unfinished").rename(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def documents(built: Path) -> dict[str, Document]:
    """The pages by their paths."""
    found = {path.parent.relative_to(built).as_posix(): path for path in built.rglob("index.html")}
    return {
        "" if name == "." else f"{name}/": Document(path.read_text(encoding="utf-8")) for name, path in found.items()
    }


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """The address of a server of the site."""
    handler = functools.partial(_Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as running:
        yield running


def test_site_links_lead_to_pages_and_anchors(built: Path, documents: dict[str, Document]) -> None:
    missing = []
    for path, document in documents.items():
        for link in document.links:
            target, anchor = urldefrag(urljoin(f"http://site/{path}", link))
            place = unquote(target.removeprefix("http://site/").partition("?")[0])
            if not target.startswith("http://site/"):
                continue
            page = documents.get(place)
            if (page is None and not (built / place).is_file()) or (
                page is not None and anchor and unquote(anchor) not in page.anchors
            ):
                missing.append(f"{path}: {link}")
    assert len(documents) > 45
    assert missing == []


def test_site_loads_nothing_from_other_hosts(documents: dict[str, Document]) -> None:
    assert {link for document in documents.values() for link in document.loaded if "://" in link} == set()


def test_site_search_finds_page(chromium: Browser, address: str) -> None:
    with chromium.new_context(viewport=WIDE) as context:
        page = context.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        page.get_by_placeholder("Search").fill("mxjob")
        page.get_by_placeholder("Search").press("Enter")
        page.locator("#search-results li a").first.wait_for()
        page.locator("#search-results").get_by_text("Jobs of Kubeflow").first.click()
        assert page.get_by_role("heading", level=1).inner_text().startswith("Jobs of Kubeflow")
        assert [url for url in requests if not url.startswith(address)] == []


def test_site_fits_narrow_screens_and_has_no_barriers(
    chromium: Browser, address: str, documents: dict[str, Document]
) -> None:
    program = browser.axe()
    problems = []
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        with chromium.new_context(color_scheme=scheme, viewport=WIDE) as context:
            page = context.new_page()
            for path in CHECKED:
                page.goto(address + path)
                problems += [f"{path} {scheme}: {problem}" for problem in browser.barriers(page, program)]
    with chromium.new_context(viewport=NARROW) as context:
        page = context.new_page()
        for path in documents:
            page.goto(address + path, wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth") > NARROW["width"]:
                problems.append(f"{path} is wider than 320 pixels")
    assert problems == []
