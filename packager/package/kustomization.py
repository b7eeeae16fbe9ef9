"""Reads and edits an overlay's kustomization.yaml: its components, switched on or off, and its patches.

`packager.rendering.kustomization` checks a whole kustomization and everything that it includes. Here one file is read
and edited, by the marks of its YAML nodes: a switch changes one line, and every other byte stays.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.package.layout import KUSTOMIZATION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packager.base.yamlio import Document

_KEY = "components"


class Component(Value, frozen=True):
    """A component that a kustomization lists, or would list without the `#`."""

    name: str  # the last part of its path
    path: str  # the path, in its plain form
    on: bool  # whether it is listed
    offset: int  # the offset of its path in the text, or of the `#` before it, in characters after a byte order mark


@lru_cache(maxsize=64)
def components(text: bytes, file: str = KUSTOMIZATION) -> tuple[Component, ...]:
    """Return the components that a kustomization lists, however it is written, or offers behind a `#`.

    Raises:
        UsageError: The kustomization is not YAML.
    """
    document, source = _read(text, file)
    on = tuple(_listed(document))
    names = {component.name for component in on}
    off = [offer for offer in _commented_out(document, source) if offer.name not in names]
    return tuple(sorted((*on, *off), key=lambda component: component.offset))


def patches(text: bytes, file: str = KUSTOMIZATION) -> tuple[str, ...]:
    """Return the names of the patches beside a kustomization. Raises the errors of `components`."""
    data = _read(text, file)[0].data
    entries = [entry.get("path") if isinstance(entry, dict) else None for entry in _list(data, "patches")]
    entries += _list(data, "patchesStrategicMerge")
    paths = [posixpath.normpath(entry) for entry in entries if isinstance(entry, str) and "\n" not in entry]
    return tuple(dict.fromkeys(path for path in paths if "/" not in path and path not in (".", "..")))


def switch(text: bytes, name: str, file: str = KUSTOMIZATION, *, on: bool) -> bytes:
    """Return a kustomization with the component `name`, which it lists or offers, switched on or off."""
    document, source = _read(text, file)
    named = [component for component in components(text, file) if component.name == name]
    if not named or named[0].on is on:
        return text
    if on:
        splices = [*_head_splices(document, source, named[0].offset), _uncomment_splice(document, source, named[0])]
    else:
        splices = [splice for component in named for splice in _comment_splices(document, source, component)]
    edited = yamlio.spliced(text, splices)
    if not _is_only_switched(document, yamlio.load(edited, file)[0], named[0], on=on):
        hint = f"{'list' if on else 'leave out'} {named[0].path} under `{_KEY}` there"
        raise UsageError(f"{file} cannot be edited automatically", hint=hint)
    return edited


def add(text: bytes, path: str, file: str = KUSTOMIZATION) -> bytes:
    """Return a kustomization with the component `path` below all others; unchanged if it lists that already."""
    document, source = _read(text, file)
    listed = _list(document.data, _KEY)
    if path in map(str, listed):
        return text
    # Below the options, also those that are off: so a site's component is applied after them, whichever is added last.
    spans = [document.span((_KEY, index)) for index in range(len(listed))]
    offers = [entry.offset for entry in components(text, file) if not entry.on]
    if spans or (offers and _KEY in _keys(document).values()):
        column = document.span((_KEY,)).column if spans else offers[0] - _line_start(source, offers[0])
        end = source.find("\n", max(*(span.end for span in spans), *offers, 0))
        end = len(source) if end < 0 else end
        splice = (end, end, f"\n{' ' * column}- {path}")
    else:
        heads = [start for start, line in _lines(source) if line.rstrip() == f"{_KEY}:"]
        splice = (
            (heads[0], heads[0] + len(f"{_KEY}:"), f"{_KEY}:\n  - {path}")
            if heads
            else (0, 0, f"{_KEY}:\n  - {path}\n")
        )
    edited = yamlio.spliced(text, [splice])
    changed = yamlio.load(edited, file)[0].data
    data = document.data if isinstance(document.data, dict) else {}
    if changed != {**data, _KEY: [*listed, path]}:
        raise UsageError(f"{file} cannot be edited automatically", hint=f"list {path} under `{_KEY}` there")
    return edited


def offer(text: bytes, line: str, before: Collection[str], file: str = KUSTOMIZATION) -> bytes:
    """Return a kustomization that offers one component more, behind a `#`.

    Args:
        text: The kustomization, whose components are not empty.
        line: The entry of the component.
        before: The names of the components that it comes after.
        file: How messages name it.
    """
    _, source = _read(text, file)
    listed = components(text, file)
    earlier = [component for component in listed if component.name in before]
    if earlier:
        end = source.find("\n", max(component.offset for component in earlier)) + 1
        at = end or len(source)
    else:
        at = _line_start(source, listed[0].offset) if listed else 0
    edited = yamlio.spliced(text, [(at, at, f"  # {line}\n")])
    path = _path(line.removeprefix("- ").partition(" #")[0])
    if not any(component.path == path for component in components(edited, file)):
        hint = f"write `{line}` under `{_KEY}` there"
        raise UsageError(f"{file} cannot be edited automatically", hint=hint)
    return edited


def _read(text: bytes, file: str) -> tuple[Document, str]:
    document, problems = yamlio.load(text, file)
    if problems:
        raise UsageError(f"{file} is not YAML", problems=problems)
    return document, text.decode("utf-8-sig")


def _list(data: Any, key: str) -> list[Any]:
    entries = data.get(key) if isinstance(data, dict) else None
    return entries if isinstance(entries, list) else []


def _path(entry: str) -> str:
    return posixpath.normpath(entry.strip())


def _name(entry: str) -> str:
    return posixpath.basename(_path(entry))


def _listed(document: Document) -> Iterator[Component]:
    for index, entry in enumerate(_list(document.data, _KEY)):
        if isinstance(entry, str):
            yield Component(_name(entry), _path(entry), on=True, offset=document.span((_KEY, index)).start)


def _commented_out(document: Document, source: str) -> Iterator[Component]:
    """Yield the commented-out components among those listed, or below a key that is commented out too."""
    keys = {_line_start(source, start): key for start, key in _keys(document).items()}
    has_list = _KEY in keys.values()
    inside = False
    for start, line in _lines(source):
        inside = keys[start] == _KEY if start in keys else inside
        value = _value(_uncommented(line))
        if isinstance(value, dict) and not has_list:
            inside = _KEY in value
        elif inside and isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
            yield Component(_name(value[0]), _path(value[0]), on=False, offset=start + line.index("#"))


def _lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield each line and the offset of its start."""
    start = 0
    for line in source.split("\n"):
        yield start, line
        start += len(line) + 1


def _keys(document: Document) -> dict[int, str]:
    """Return the keys of the kustomization by their position."""
    data = document.data if isinstance(document.data, dict) else {}
    return {document.span((key,), at_key=True).start: key for key in data}


def _uncommented(line: str) -> str:
    """Return the text after the `#` of a comment line; an empty text for another line."""
    stripped = line.strip()
    return stripped[1:].lstrip() if stripped.startswith("#") else ""


def _value(content: str) -> Any:
    """Return the value of one line of YAML: the entry of a list, or a key without a value; None for any other line."""
    if not content.startswith("-") and not content.partition(" #")[0].rstrip().endswith(":"):
        return None
    document, problems = yamlio.load(content.encode(), "")
    return None if problems else document.data


def _uncomment_splice(document: Document, source: str, offer: Component) -> tuple[int, int, str]:
    """Return the splice that uncomments an entry, with the indentation of the existing entries."""
    if _list(document.data, _KEY):
        return _line_start(source, offer.offset), source.index("-", offer.offset), " " * document.span((_KEY,)).column
    return offer.offset, offer.offset + (2 if source[offer.offset + 1] in " \t" else 1), ""


def _head_splices(document: Document, source: str, below: int) -> Iterator[tuple[int, int, str]]:
    """Yield the splice that lets the list begin: that takes the `#` from its head, or an empty list away."""
    if _KEY in _keys(document).values():
        if not _list(document.data, _KEY):
            start, end, _ = document.span((_KEY,))
            yield start, end, ""
        return
    heads = [
        start + line.index("#")
        for start, line in _lines(source)
        if start < below and isinstance(value := _value(_uncommented(line)), dict) and _KEY in value
    ]
    for offset in heads[-1:]:
        yield _line_start(source, offset), source.index(_KEY, offset), ""


def _comment_splices(document: Document, source: str, component: Component) -> Iterator[tuple[int, int, str]]:
    """Yield the splice that comments out an entry; none for an entry that shares its line."""
    spans = [document.span((_KEY, index)) for index in range(len(_list(document.data, _KEY)))]
    end = next(span.end for span in spans if span.start == component.offset)
    before = source[_line_start(source, component.offset) : component.offset]
    if before.strip(" \t") == "-" and "\n" not in source[component.offset : end]:
        offset = _line_start(source, component.offset) + before.index("-")
        yield offset, offset, "# "


def _line_start(source: str, offset: int) -> int:
    """Return the offset of the start of the line that contains the character at `offset`."""
    return source.rfind("\n", 0, offset) + 1


def _is_only_switched(before: Document, after: Document, component: Component, *, on: bool) -> bool:
    """Whether `after` is `before` with one component switched, and nothing else."""
    if not isinstance(after.data, dict):
        return False
    rest, new_rest = ({**(document.data or {}), _KEY: None} for document in (before, after))
    other_entries, new_entries = (
        [e for e in _list(d.data, _KEY) if not _is_named(e, component)] for d in (before, after)
    )
    listed = [entry for entry in _list(after.data, _KEY) if _is_named(entry, component)]
    return rest == new_rest and other_entries == new_entries and len(listed) == (1 if on else 0)


def _is_named(entry: Any, component: Component) -> bool:
    return isinstance(entry, str) and _name(entry) == component.name
