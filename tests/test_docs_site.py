"""Test the site of docs/: its links lead somewhere, and it loads nothing from other hosts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from tests.testbed.places import only_one
from tools import site

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.thorough


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
