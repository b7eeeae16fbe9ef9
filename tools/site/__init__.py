"""Makes the site of docs/: `make site` writes it to build/site. Tests: test_docs_site.py.

Sphinx reads a copy of the documents, whose links are those of the site. The pages need no other host.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).resolve().parent

BESIDE = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "report.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
"""The pages of the site that are not in docs/, each with its path in the site."""

CONTENTS = {
    "Start": ("overview", "tour", "session"),
    "The packager": ("import", "guides/mlcubes", "guides/kubeflow", "publish", "airgap"),
    "The mlops user": ("guides/storage", "guides/gpus", "guides/secrets", "run", "upgrade", "verify"),
    "The devops person": ("site", "guides/queues", "gitops"),
    "The task service": ("service", "service/*"),
    "Reference": ("usage", "commands", "spec", "options", "api", "format", "policy", "changelog"),
    "Concepts": ("architecture", "security", "comparison", "benchmarks", "adr/*"),
    "Project": ("contributing", "change", "conduct", "report"),
}
"""The pages below each heading of the navigation."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_REPAIRS = (
    # A reader who uses the keyboard alone scrolls a wide example or table with the arrow keys.
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    # A cell without a text is no heading.
    ('<th class="head"><p></p></th>', "<td></td>"),
    ('<div id="search-results"></div>', '<h1>Search</h1><div id="search-results"></div>'),
    ('<p class="caption" role="heading">', '<p class="caption">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
)
"""Texts of the theme, and what makes them accessible."""


def build(destination: Path) -> None:
    """Write the site.

    Args:
        destination: The folder; what is in it is replaced.

    Raises:
        subprocess.CalledProcessError: Sphinx has found a fault, such as a link to a page that does not exist.
    """
    stage = destination.with_name(f"{destination.name}-pages")
    for folder in (stage, destination):
        shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages().items():
        path = stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(CHECKOUT / "docs/pictures", stage / "pictures")
    shutil.copytree(_HERE / "static", stage / "static")
    shutil.copy(_HERE / "conf.py", stage)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "dirhtml",
        str(stage),
        str(destination),
    ]
    subprocess.run(command, check=True)  # noqa: S603 - Sphinx
    for page in destination.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, repaired in _REPAIRS:
            text = text.replace(found, repaired)
        page.write_text(text, encoding="utf-8")
    shutil.rmtree(stage)
    shutil.rmtree(destination / ".doctrees")


def pages() -> dict[str, str]:
    """Return the text of each page by its path in the site."""
    docs = CHECKOUT / "docs"
    sources = {path.relative_to(CHECKOUT).as_posix(): path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    sources |= BESIDE
    texts = {
        page: _moved((CHECKOUT / file).read_text(encoding="utf-8"), file, sources) for file, page in sources.items()
    }
    for heading, names in CONTENTS.items():
        entries = "\n".join(names)
        texts["index.md"] += f"\n```{{toctree}}\n:caption: {heading}\n:glob:\n:hidden:\n{entries}\n```\n"
    return texts


def _moved(text: str, file: str, sources: dict[str, str]) -> str:
    """Return a page whose links are those of the site; a link to a file that is no page becomes plain text."""

    def link(match: re.Match[str]) -> str:
        mark, shown, target = match.groups()
        path, hash_sign, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        here = posixpath.dirname(sources[file]) or "."
        if mark:
            return f"![{shown}]({posixpath.relpath(place, posixpath.join('docs', here))})"
        if place not in sources:
            return shown
        return f"[{shown}]({posixpath.relpath(sources[place], here)}{hash_sign}{anchor})"

    return _LINK.sub(link, text)
