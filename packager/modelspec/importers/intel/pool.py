"""The pool of specs that contains a spec of Intel's Model Zoo, and the slices that a release uses.

IntelAI/models, tools/docker/assembler.py: read_spec_files, get_slice_sets_and_required_args, gather_slice_list_items.

Tests: modelspec/importers/intel/test_read.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.modelspec.importers.source import ForeignValue, Ledger, Source, invalid, oversized, read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.yamlio import Document

KIND = "a spec of Intel's Model Zoo"
_BASE = "base_spec.yml"
_MOST_FILES = 1000
_MOST_SLICES = 100
_SPECS = "specs"
_BRACES = re.compile(r"\{([^{}]*)\}")


class Pool:
    """The specs of a folder; each is read when a slice of it is needed."""

    def __init__(self, path: Path, name: str, document: Document, ledger: Ledger) -> None:
        self._path = path
        self._name = name
        self._top = _top(path)
        self._ledger = ledger
        self._sources = {path: Source(document, ledger, path.name)}
        self._texts: dict[Path, dict[Path, bytes]] = {}
        self.own = self._sources[path]

    def slices(self, name: str) -> ForeignValue | None:
        """Return the first slice of a set; None if no file of the folder has the set."""
        for source in (self.own, self._read(self._path.parent / _BASE)):
            if source and (entry := source.root.at("slice_sets", name)):
                return _first(entry)
        # The zoo keeps specs that it does not build in a separate folder, without the slices that they use.
        for top in (self._top, self._top.parent) if self._top.parent.name == _SPECS else (self._top,):
            for file in self._holding(top, name):
                source = self._read(file)
                if source and (entry := source.root.at("slice_sets", name)):
                    return _first(entry)
        return None

    def _holding(self, top: Path, name: str) -> list[Path]:
        """Return the other files below `top` that may define a set: those in which its name occurs."""
        if top not in self._texts:
            paths = sorted(path for path in top.rglob("*.yml") if path.is_file() and not path.is_symlink())
            self._texts[top] = {
                path: self._ledger.count(read_bytes(path, self._shown(path)), self._shown(path))
                for path in paths[:_MOST_FILES]
            }
        key = f"{name}:".encode()
        return [file for file, text in self._texts[top].items() if key in text and file not in self._sources]

    def _shown(self, path: Path) -> str:
        """Return the name of another file of the pool in messages."""
        if path.parent == self._path.parent:
            return f"{self._name[: len(self._name) - len(self._path.name)]}{path.name}"
        return str(path)

    def _read(self, path: Path) -> Source | None:
        if path not in self._sources:
            if not path.is_file() or path.is_symlink():
                return None
            self._sources[path] = Source(loaded(path, self._shown(path), self._ledger), self._ledger, path.name)
        return self._sources[path]


def _top(path: Path) -> Path:
    """Return the folder of the pool: that of the framework, or the spec's own."""
    folder = path.parent
    for parent in path.parents:
        if parent.name == _SPECS:
            return folder
        folder = parent
    return path.parent


def loaded(path: Path, name: str, ledger: Ledger) -> Document:
    """Return a spec of the pool; add a finding for a duplicate key, which one of the zoo's specs has."""
    document, problems = yamlio.load(read_bytes(path, name), name)
    problems.extend(oversized([document]))
    duplicates = [problem for problem in problems if problem.kind == yamlio.DUPLICATE_KEY]
    if len(duplicates) < len(problems):
        raise invalid(name, KIND, problems)
    if not isinstance(document.data, dict):
        raise invalid(name, KIND, [document.problem((), f"expected a mapping, found {show(document.data)}")])
    ledger.findings.extend(
        Problem(name, problem.line, problem.column, f"{problem.message}: the first one counts")
        for problem in duplicates
    )
    return document


def _first(entry: ForeignValue) -> ForeignValue | None:
    items = entry.items()
    for item in items[1:]:
        item.leave("is not carried over: the first slice of a set is used")
    return items[0] if items and items[0].is_mapping() else None


def release_slices(pool: Pool) -> list[ForeignValue]:
    """Return the slices of the spec's release, in order."""
    root = pool.own.root
    releases = root.at("releases")
    tags: list[ForeignValue] = []
    for release in releases.children() if releases else ():
        listed = release.at("tag_specs")
        tags.extend(listed.items() if listed else ())
        for entry in release.children():
            if entry.key != "tag_specs":
                entry.done()  # how images are called and pushed
    for other in tags[1:]:
        other.leave("is not carried over: the first release is used")
    if not tags:
        root.refuse("expected releases with tag_specs", "this file makes no package")
        return []
    return _named(pool, tags[0])


def _named(pool: Pool, tag: ForeignValue) -> list[ForeignValue]:
    """Return the slices that a tag names in braces."""
    text = tag.text() or ""
    names = _BRACES.findall(text)
    if len(names) > _MOST_SLICES:
        tag.refuse(f"expected at most {_MOST_SLICES} names of slice sets, found {len(names):,}")
        return []
    slices: list[ForeignValue] = []
    for name in names:
        if name.startswith("_"):
            continue
        piece = pool.slices(name)
        if piece is None:
            tag.refuse(f"no slice set {show(name)} in the folders of specs")
        else:
            slices.append(piece)
    if not slices and not pool.own.ledger.problems:
        tag.refuse(f"expected names of slice sets in braces, found {show(text)}")
    return slices


def arguments(slices: list[ForeignValue]) -> dict[str, tuple[str, ForeignValue]]:
    """Return the arguments of slices, the last of each name."""
    values: dict[str, tuple[str, ForeignValue]] = {}
    for entry in slices:
        listed = entry.child("args")
        for item in listed.items() if listed else ():
            key, _, value = (item.text() or "").partition("=")
            values[key] = (value, item)
    return values


def items_of(slices: list[ForeignValue], key: str) -> list[ForeignValue]:
    """Return the items of a list in all slices, in order."""
    result: list[ForeignValue] = []
    for entry in slices:
        listed = entry.child(key)
        result.extend(listed.items() if listed else ())
    return result
