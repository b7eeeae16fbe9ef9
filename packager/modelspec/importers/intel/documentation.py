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

from packager.base.problems import show
from packager.modelspec.documentation import HEADING, section
from packager.modelspec.importers.draft import DraftFile
from packager.modelspec.importers.intel.code import plain_path
from packager.modelspec.importers.source import printable, read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.modelspec.importers.draft import Sketch
    from packager.modelspec.importers.intel.checkout import Checkout
    from packager.modelspec.importers.intel.code import ZooFile
    from packager.modelspec.importers.source import ForeignValue, Ledger

# Titles of fragments about how another package is downloaded and run.
_LEFT_OUT = ("title", "download link", "bare metal", "ai kit", "docker", "docker arg", "kubernetes")
_FOLDERS = ("docs", "documentation", "readme-sections")
_LONGEST_DESCRIPTION = 20_000
_LONGEST_TITLE = 100
_MOST_SECTIONS = 20
_PLAIN_TITLE = rf"[A-Za-z0-9][A-Za-z0-9 ,.:()&/'-]{{0,{_LONGEST_TITLE - 1}}}"
_MOST_BYTES = 64 << 10
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Controls, and characters that change the direction of text or are never seen.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment of a document.

    Attributes:
        item: The entry of the fragment.
        title: The title of the section.
        path: The path of the fragment in the checkout.
        text: The content of the fragment.
    """

    item: ForeignValue
    title: str
    path: str
    text: str


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
    """Put the description and the sections; add a finding for each fragment that is left out.

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
    tops = {path.partition("/")[0] for path in files}
    folder = next(name for name in _FOLDERS if name not in tops or name == _FOLDERS[-1])
    number = 0
    for fragment in fragments:
        text = section(fragment.text, fragment.title)
        if fragment.title.lower() == "description" and "description" not in sketch.data:
            _describe(sketch, fragment.item, text, ledger)
        elif text and number == _MOST_SECTIONS:
            fragment.item.leave("is not carried over: the documentation is too long")
        elif text:
            title = _unique(sketch, fragment.title)
            number += 1
            name = f"{folder}/{number:02}-{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-') or 'section'}.md"
            place = ("documentation", number - 1)
            sketch.put((*place, "title"), title, fragment.item.origin)
            sketch.put((*place, "file"), name, fragment.item.origin)
            sketch.files.append(DraftFile(name, f"{text}\n".encode()))


def _fragments(
    document: ForeignValue, checkout: Checkout, ledger: Ledger, earlier: Sequence[Fragment]
) -> list[Fragment]:
    """Return the fragments of a document that apply to the new package, and that no earlier document has."""
    words = {word: text for word, entry in replacements(document).items() if (text := entry.text())}
    listed = document.at("docs")
    document.child("uri")
    name_entry = document.at("name")
    document_title = posixpath.splitext((name_entry.text() if name_entry else None) or "")[0]
    known = {fragment.path for fragment in earlier}
    fragments: list[Fragment] = []
    for item in listed.items() if listed else ():
        name, uri = item.at("name"), item.at("uri")
        title = " ".join(_HIDDEN.sub(" ", (name.text() if name else None) or "").split())[:_LONGEST_TITLE]
        if uri is None or not title:
            item.leave("is not carried over: expected a name and a uri")
        elif title.lower() in _LEFT_OUT:
            item.leave(f"({show(printable(title))}) is not carried over: it is about another package")
        elif found := _content(uri, words, checkout, ledger):
            path, content = found
            if path in known:
                item.leave(f"({show(printable(title))}) is a section already")
                continue
            heading = HEADING.match(content)
            own_title = " ".join(heading[2].split()) if heading else ""
            if title.lower() == "description" and earlier and re.fullmatch(_PLAIN_TITLE, document_title):
                title = document_title
            elif title.lower() != "description" and re.fullmatch(_PLAIN_TITLE, own_title):
                title = own_title
            fragments.append(Fragment(item, title, path, content))
    return fragments


def _content(uri: ForeignValue, words: Mapping[str, str], checkout: Checkout, ledger: Ledger) -> tuple[str, str] | None:
    """Return the path of a fragment and its text without comments; None, with a finding, if it is not found."""
    text = (uri.text() or "").strip().removeprefix("models/")
    path = plain_path(checkout.root, text) if not text.startswith("/") and ".." not in text.split("/") else None
    if path is None or not path.is_file():
        uri.leave("is not found in the checkout")
        return None
    raw = read_bytes(path, checkout.shown + text, _MOST_BYTES)
    if len(raw) > _MOST_BYTES:
        uri.leave(f"is not carried over: it is larger than {_MOST_BYTES >> 10} KiB")
        return None
    content = raw.decode("utf-8-sig", "replace")
    for word, value in words.items():
        if not word or len(content) + content.count(word) * len(value) > 2 * _MOST_BYTES:
            message = f"{show(printable(word))} is not replaced: the text would be too long"
            ledger.findings.append(uri.problem(message))
        else:
            content = content.replace(word, value)
    content = _COMMENT.sub("", content.replace("\r\n", "\n"))
    return text, "\n".join(_HIDDEN.sub(" ", line) for line in content.split("\n")).strip("\n")


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
