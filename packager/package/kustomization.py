"""Reads and edits an overlay's kustomization.yaml: its components, switched on or off, and its patches.

`packager.rendering.kustomization` checks a whole kustomization and everything that it includes. Here one file is read
and edited, by the marks of its YAML nodes: a switch changes one line, and every other byte stays.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.package.layout import KUSTOMIZATION

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from packager.base.yamlio import Document

_KEY = "components"

_OFFER = re.compile(r"^[ \t]*(?P<mark>#)[ \t]*(?P<entry>-[ \t].*?)[ \t\r]*$", re.MULTILINE)
"""An entry of the list behind a `#`."""


class Component(Value, frozen=True):
    """A component that a kustomization lists, or would list without the `#`."""

    name: str  # the last part of its path
    path: str  # the path, in its plain form
    on: bool  # whether it is listed
    offset: int  # the offset of its path in the text, or of the `#` before it, in characters after a byte order mark


class _File(NamedTuple):
    document: Document
    source: str
    data: dict[str, Any]
    entries: list[Any]  # of the components


@lru_cache(maxsize=64)
def components(text: bytes, file: str = KUSTOMIZATION) -> tuple[Component, ...]:
    """Return the components that a kustomization lists, however it is written, or offers behind a `#`."""
    document, source, data, entries = _read(text, file)
    if _KEY not in data:
        return ()
    places = [(entry, document.span((_KEY, index)).start) for index, entry in enumerate(entries)]
    found = [_component(entry, on=True, offset=start) for entry, start in places if isinstance(entry, str)]
    names = {component.name for component in found}
    starts = {key: document.span((key,), at_key=True).start for key in data}
    end = min((start for start in starts.values() if start > starts[_KEY]), default=len(source))
    for match in _OFFER.finditer(source, starts[_KEY], end):
        value = listing(yamlio.load(match["entry"].encode(), "")[0].data)
        if len(value) == 1 and isinstance(value[0], str):
            offer = _component(value[0], on=False, offset=match.start("mark"))
            found += [offer] if offer.name not in names else []
    return tuple(sorted(found, key=lambda component: component.offset))


def patches(text: bytes, file: str = KUSTOMIZATION) -> tuple[str, ...]:
    """Return the names of the patches beside a kustomization. Raises the errors of `components`."""
    data = _read(text, file).data
    entries = [mapping(entry).get("path") for entry in listing(data.get("patches"))]
    entries += listing(data.get("patchesStrategicMerge"))
    paths = [posixpath.normpath(entry) for entry in entries if isinstance(entry, str) and "\n" not in entry]
    return tuple(dict.fromkeys(path for path in paths if "/" not in path and path not in (".", "..")))


def switch(text: bytes, name: str, file: str = KUSTOMIZATION, *, on: bool) -> bytes:
    """Return a kustomization with the component `name`, which it lists or offers, switched on or off."""
    document, source, _, entries = _read(text, file)
    listed = components(text, file)
    named = [component for component in listed if component.name == name]
    if not named or named[0].on is on:
        return text
    first, splices = named[0], []
    start = _line_start(source, first.offset)
    if not on:
        for component in named:
            start = _line_start(source, component.offset)
            before = source[start : component.offset]
            if before.strip(" \t") == "-":  # else it shares its line
                splices.append((start + before.index("-"), start + before.index("-"), "# "))
    elif entries:
        splices.append((start, source.index("-", first.offset), " " * document.span((_KEY,)).column))
    else:
        value = document.span((_KEY,))  # an empty list, which goes
        blank = source[first.offset + 1] in " \t"
        splices += [(value.start, value.end, ""), (first.offset, first.offset + 1 + blank, "")]
    expected = [component.path for component in listed if component.on and component.name != name]
    expected += [first.path] if on else []
    hint = f"{'list' if on else 'leave out'} {first.path} under `{_KEY}` there"
    return _edited(text, splices, file, expected, hint)


def add(text: bytes, path: str, file: str = KUSTOMIZATION) -> bytes:
    """Return a kustomization with the component `path` below all others; unchanged if it lists that already."""
    document, source, _, entries = _read(text, file)
    if path in map(str, entries):
        return text
    # Below the options, also those that are off: so a site's component is applied after them, whichever is added last.
    listed = components(text, file)
    if listed:
        first, last = listed[0].offset, listed[-1].offset
        column = document.span((_KEY,)).column if entries else first - _line_start(source, first)
        end = source.find("\n", last)
        end = len(source) if end < 0 else end
        splice = (end, end, f"\n{' ' * column}- {path}")
    elif head := re.search(rf"(?m)^{_KEY}:(?=[ \t\r]*$)", source):
        splice = (head.end(), head.end(), f"\n  - {path}")
    else:
        splice = (0, 0, f"{_KEY}:\n  - {path}\n")
    expected = [*(component.path for component in listed if component.on), posixpath.normpath(path)]
    return _edited(text, [splice], file, expected, f"list {path} under `{_KEY}` there")


def offer(text: bytes, line: str, before: Collection[str], file: str = KUSTOMIZATION) -> bytes:
    """Return a kustomization that offers one component more, behind a `#`."""
    source = _read(text, file).source
    listed = components(text, file)
    earlier = [component for component in listed if component.name in before]
    if earlier:
        end = source.find("\n", max(component.offset for component in earlier)) + 1
        at = end or len(source)
    else:
        at = _line_start(source, listed[0].offset) if listed else 0
    expected = [component.path for component in listed if component.on]
    return _edited(text, [(at, at, f"  # {line}\n")], file, expected, f"write `{line}` under `{_KEY}` there")


def _edited(
    text: bytes, splices: Sequence[tuple[int, int, str]], file: str, expected: Sequence[str], hint: str
) -> bytes:
    """Return the edited text. Raises UsageError unless the components that are on are all that changes in it."""
    edited = yamlio.spliced(text, splices)
    (document, _), (changed, problems) = (yamlio.load(it, file) for it in (text, edited))
    is_other = problems or {**mapping(document.data), _KEY: None} != {**mapping(changed.data), _KEY: None}
    if is_other or sorted(expected) != sorted(part.path for part in components(edited, file) if part.on):
        raise UsageError(f"{file} cannot be edited automatically", hint=hint)
    return edited


def _read(text: bytes, file: str) -> _File:
    document, problems = yamlio.load(text, file)
    if problems:
        raise UsageError(f"{file} is not YAML", problems=problems)
    data = mapping(document.data)
    return _File(document, text.decode("utf-8-sig"), data, listing(data.get(_KEY)))


def _component(entry: str, *, on: bool = False, offset: int = 0) -> Component:
    path = posixpath.normpath(entry.strip())
    return Component(posixpath.basename(path), path, on, offset)


def _line_start(source: str, offset: int) -> int:
    """Return the offset of the start of the line that contains the character at `offset`."""
    return source.rfind("\n", 0, offset) + 1
