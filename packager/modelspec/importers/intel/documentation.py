"""The documentation of a package of Intel's Model Zoo: fragments of Markdown that its assembler joins to READMEs.

IntelAI/models, tools/docker/assembler.py, merge_docs: fragments are joined in order, then each key of `text_replace` is
replaced by its value. Since v2.5 a package has several documents. The first fragment called Description becomes the
description of the model, and each other one a section of the README.

Tests: modelspec/importers/intel/test_read.py.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import markdown
from packager.base.problems import Problem, show
from packager.modelspec.importers.draft import DraftFile
from packager.modelspec.importers.intel.code import plain_path
from packager.modelspec.importers.source import printable, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from packager.modelspec.importers.draft import Sketch
    from packager.modelspec.importers.intel.checkout import Checkout
    from packager.modelspec.importers.intel.code import ZooFile
    from packager.modelspec.importers.source import ForeignValue, Ledger

# Titles of fragments about how another package is downloaded and run.
_LEFT_OUT = ("title", "download link", "bare metal", "ai kit", "docker", "docker arg", "kubernetes")
_FOLDERS = ("docs", "documentation", "readme-sections")
_LEVEL = 2
_LONGEST_DESCRIPTION = 20_000
_LONGEST_TITLE = 100
_MOST_SECTIONS = 20
_PLAIN_TITLE = rf"[A-Za-z0-9][A-Za-z0-9 ,.:()&/'-]{{0,{_LONGEST_TITLE - 1}}}"
_MOST_BYTES = 200 << 10
_ELSEWHERE = re.compile(r"(https?://|mailto:)[^\s<>]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment of a document.

    Attributes:
        item: The entry of the fragment.
        title: The title of the section.
        page: The content of the fragment.
        folders: The folders of the checkout to which the links may be relative.
    """

    item: ForeignValue
    title: str
    page: markdown.Page
    folders: tuple[str, ...]

    def resolver(self, packaged: Mapping[str, str], anchors: AbstractSet[str], top: str) -> Callable[[str], str | None]:
        """Return a function that resolves links: to a file of the package below `top`, unchanged, or to None."""

        def resolve(target: str) -> str | None:
            if _ELSEWHERE.fullmatch(target) or (target.startswith("#") and target[1:] in anchors):
                return target
            path = packaged.get(_in_checkout(target, self.folders, packaged))
            return f"{top}{path}" if path else None

        return resolve


def documents(documentation: ForeignValue | None) -> list[ForeignValue]:
    """Return the documents of a package: a single one, or since v2.5 a list."""
    if documentation is None:
        return []
    listed = documentation.items() if isinstance(documentation.value, list) else [documentation]
    return [entry for entry in listed if entry.is_mapping()]


def replacements(document: ForeignValue) -> dict[str, ForeignValue]:
    """Return the words of a document to replace, with the entries of their replacements."""
    listed = document.at("text_replace")
    for key in ("name", "uri"):
        document.child(key)
    return {entry.key: entry for entry in listed.children() if entry.value is not None} if listed else {}


def put(
    sketch: Sketch, entries: Sequence[ForeignValue], checkout: Checkout, files: Mapping[str, ZooFile], ledger: Ledger
) -> None:
    """Put the description and the sections; add a finding for each fragment that is left out, and for each lost link.

    Args:
        sketch: The draft.
        entries: The documents.
        checkout: The checkout with the fragments.
        files: The files of the package, by their paths in it.
        ledger: The ledger for the findings.
    """
    fragments: list[Fragment] = []
    for entry in entries:
        fragments += _fragments(entry, checkout, ledger, fragments)
    packaged = {file.path.relative_to(checkout.root).as_posix(): path for path, file in files.items()}
    anchors = {anchor for fragment in fragments for anchor in fragment.page.anchors()}
    anchors |= {markdown.anchor(fragment.title) for fragment in fragments}
    tops = {path.partition("/")[0] for path in files}
    folder = next(name for name in _FOLDERS if name not in tops or name == _FOLDERS[-1])
    number, size = 0, 0
    for fragment in fragments:
        is_description = fragment.title.lower() == "description" and "description" not in sketch.data

        # A build looks up the files that links name only in sections.
        resolve = fragment.resolver({} if is_description else packaged, anchors, "../")
        section = fragment.page.section(fragment.title, _LEVEL, resolve)
        ledger.findings += section.remarks
        if section.problems:
            fragment.item.leave(f"is not carried over: {section.problems[0].message}")
        elif is_description:
            _describe(sketch, fragment.item, section.text, ledger)
        elif section.text.strip():
            size += len(section.text.encode())
            if number == _MOST_SECTIONS or size > _MOST_BYTES:
                fragment.item.leave("is not carried over: the documentation is too long")
                continue
            title = _unique(sketch, fragment.title)
            number += 1
            name = f"{folder}/{number:02}-{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-') or 'section'}.md"
            place = ("documentation", number - 1)
            sketch.put((*place, "title"), title, fragment.item.origin)
            sketch.put((*place, "file"), name, fragment.item.origin)
            sketch.files.append(DraftFile(name, section.text.encode()))


def _fragments(
    document: ForeignValue, checkout: Checkout, ledger: Ledger, earlier: Sequence[Fragment]
) -> list[Fragment]:
    """Return the fragments of a document that apply to the new package, and that no earlier document has."""
    words = {word: text for word, entry in replacements(document).items() if (text := entry.text())}
    listed = document.at("docs")
    own = document.at("uri")
    home = (own.text() if own else None) or ""
    name_entry = document.at("name")
    document_title = posixpath.splitext((name_entry.text() if name_entry else None) or "")[0]
    known = {fragment.page.name for fragment in earlier}
    fragments: list[Fragment] = []
    for item in listed.items() if listed else ():
        name, uri = item.at("name"), item.at("uri")
        title = " ".join(markdown.HIDDEN.sub(" ", (name.text() if name else None) or "").split())[:_LONGEST_TITLE]
        if uri is None or not title:
            item.leave("is not carried over: expected a name and a uri")
        elif title.lower() in _LEFT_OUT:
            item.leave(f"({show(printable(title))}) is not carried over: it is about another package")
        elif page := _page(uri, words, checkout, ledger):
            if page.name in known:
                item.leave(f"({show(printable(title))}) is a section already")
                continue
            own_title = page.title or ""
            if title.lower() == "description" and earlier and re.fullmatch(_PLAIN_TITLE, document_title):
                title = document_title
            elif title.lower() != "description" and re.fullmatch(_PLAIN_TITLE, own_title):
                title = own_title
            folders = (home.strip().removeprefix("models/"), posixpath.dirname(page.name.removeprefix(checkout.shown)))
            fragments.append(Fragment(item, title, page, folders))
    return fragments


def _page(uri: ForeignValue, words: Mapping[str, str], checkout: Checkout, ledger: Ledger) -> markdown.Page | None:
    """Return the content of a fragment; None, with a finding, if it is not found or cannot be a section."""
    text = (uri.text() or "").strip().removeprefix("models/")
    path = plain_path(checkout.root, text) if not text.startswith("/") and ".." not in text.split("/") else None
    if path is None or not path.is_file():
        uri.leave("is not found in the checkout")
        return None
    content = read_bytes(path, checkout.shown + text, markdown.MAX_BYTES).decode("utf-8-sig", "replace")
    for word, value in words.items():
        if not word or len(content) + content.count(word) * len(value) > 2 * markdown.MAX_BYTES:
            message = f"{show(printable(word))} is not replaced: the text would be too long"
            ledger.findings.append(uri.problem(message))
        else:
            content = content.replace(word, value)
    lines = content.replace("\r\n", "\n").split("\n")
    hidden = next((number for number, line in enumerate(lines, start=1) if markdown.HIDDEN.search(line)), None)
    if hidden:
        message = "characters that are never seen are left out"
        ledger.findings.append(Problem(checkout.shown + text, hidden, 1, message))
    page = markdown.Page("\n".join(markdown.HIDDEN.sub(" ", line) for line in lines).encode(), checkout.shown + text)
    ledger.findings += page.problems
    if page.problems:
        uri.leave("is not carried over: it cannot be a section of another document")
        return None
    return page


def _in_checkout(target: str, folders: Sequence[str], packaged: Mapping[str, str]) -> str:
    """Return a link's path in the checkout: from its top, or from the first folder that has a packaged file there."""
    path = markdown.unquoted(target.partition("#")[0].partition("?")[0])
    if path.startswith("/"):
        return posixpath.normpath(path.lstrip("/"))
    places = [posixpath.normpath(posixpath.join(folder, path)) for folder in folders]
    return next((place for place in places if place in packaged), places[0])


def _describe(sketch: Sketch, item: ForeignValue, text: str, ledger: Ledger) -> None:
    if len(text) > _LONGEST_DESCRIPTION:
        message = f"{item.path} is cut at {_LONGEST_DESCRIPTION:,} characters"
        ledger.findings.append(item.problem(message, at_key=True))
    lines = "\n".join(line.rstrip() for line in text.replace("\t", "    ")[:_LONGEST_DESCRIPTION].splitlines())
    if lines.strip():
        sketch.put(("description",), lines.strip() + "\n", item.origin)


def _unique(sketch: Sketch, title: str) -> str:
    """Return a title that no other section has, ignoring case."""
    known = {entry["title"].lower() for entry in sketch.data.get("documentation", [])}
    numbered = (f"{title} ({number})" for number in range(2, _MOST_SECTIONS + 2))
    return title if title.lower() not in known else next(name for name in numbered if name.lower() not in known)
