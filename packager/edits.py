"""Changes single values in people's files: bytes in, bytes out, and everything else stays as it was.

assign   a line of an env file
set_ids  the user's numbers in a patch
switch   the line of a component in a kustomization.yaml: with `#` in front, or without
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager import envfile, yamlio
from packager.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import yaml

    from packager.yamlio import Location

# Where a pod's own security context stands: in a Pod, in any template. A container's is not ours to change.
_POD_LEVEL = ("spec", "securityContext")

_COMPONENTS = re.compile(r"(?P<off>#[ \t]?)?components:[ \t]*(#.*)?")
_COMPONENT = re.compile(r"[ \t]*(?P<off>#[ \t]*)?-[ \t]+(?P<quote>[\"']?)(?P<path>[^\s\"'#]+)(?P=quote)[ \t]*(#.*)?")


@dataclass(frozen=True, slots=True)
class Component:
    """A component that a kustomization lists, or would list without the `#`.

    Attributes:
        name: The last part of its path.
        path: As it is written.
        on: Whether it is listed.
        line: Where, from 0.
    """

    name: str
    path: str
    on: bool
    line: int


def assign(text: bytes, key: str, value: str, name: str) -> bytes:
    """Return an env file with `key` set to `value`: in the line that sets it, in one that is commented out, or anew.

    Raises:
        UsageError: The file, called `name`, sets the key twice.
    """
    lines = text.split(b"\n")
    end = b"\r" if lines[0].endswith(b"\r") else b""
    places = [line.number - 1 for line in envfile.lines(text) if line.key == key]
    if len(places) > 1:
        first, second = (place + 1 for place in places[:2])
        raise UsageError(f"{name} sets {key} twice, in the lines {first} and {second}", hint="keep one of them")
    place = places[0] if places else offered(text, key)
    if place is not None:
        line = lines[place]
        before = line.removesuffix(b"\r").partition(b"=")[0] if places else key.encode()
        lines[place] = before + b"=" + value.encode() + (b"\r" if line.endswith(b"\r") else b"")
        return b"\n".join(lines)
    if lines[-1]:
        lines[-1] += end
        lines.append(b"")
    lines[-1:] = [f"{key}={value}".encode() + end, b""]
    return b"\n".join(lines)


def offered(text: bytes, key: str) -> int | None:
    """Return the line, from 0, in which an env file has `key` commented out; None when it has not."""
    pattern = re.compile(rb"#[ \t]*" + re.escape(key.encode()) + rb"=.*")
    return next((number for number, line in enumerate(text.split(b"\n")) if pattern.match(line)), None)


def set_ids(text: bytes, ids: Mapping[str, int], name: str) -> bytes:
    """Return a patch with the ids of every pod's security context that it sets.

    Args:
        text: The patch.
        ids: By key: runAsUser, runAsGroup, fsGroup. A key that the patch does not set is left out.
        name: How messages name the file.

    Raises:
        UsageError: It is no YAML, or is written in a way that only a person can edit.
    """
    documents, problems = yamlio.load_all(text, name)
    if problems:
        raise UsageError(f"{name} cannot be edited", problems=problems)
    source = text.decode("utf-8-sig")
    found = [each for document in documents if document.root for each in _ids(document.root, ids, ())]
    for start, end, value in sorted(found, reverse=True):
        source = source[:start] + str(value) + source[end:]
    edited = text[: len(text) - len(text.decode("utf-8-sig").encode())] + source.encode()
    wanted = [_with_ids(document.data, ids, ()) for document in documents]
    if [document.data for document in yamlio.load_all(edited, name)[0]] != wanted:
        raise UsageError(f"{name} is written in a way that only a person can edit", hint=f"set {_listed(ids)} there")
    return edited


def ids(text: bytes, name: str) -> dict[str, Any]:
    """Return runAsUser, runAsGroup and fsGroup as a patch sets them first; those that it does not set are left out."""
    found: dict[str, Any] = {}
    for document in yamlio.load_all(text, name)[0]:
        for location, value in _values(document.data, ()):
            if location[-3:-1] == _POD_LEVEL and location[-1] in ("runAsUser", "runAsGroup", "fsGroup"):
                found.setdefault(str(location[-1]), value)
    return found


def components(text: bytes) -> tuple[Component, ...]:
    """Return the components that a kustomization lists, or offers behind a `#`."""
    return tuple(_components(text.decode(errors="surrogateescape").split("\n")))


def switch(text: bytes, name: str, *, on: bool) -> bytes:
    """Return a kustomization with the component `name`, which it lists or offers, switched on or off."""
    lines = text.decode(errors="surrogateescape").split("\n")
    for component in list(_components(lines)):
        if component.name == name and component.on is not on:
            line = lines[component.line]
            if on:
                lines[component.line] = re.sub(r"#[ \t]?", "", line, count=1)
                _head_on(lines, component.line)
            else:
                lines[component.line] = line[: len(line) - len(line.lstrip())] + "# " + line.lstrip()
    return "\n".join(lines).encode(errors="surrogateescape")


def _head_on(lines: list[str], below: int) -> None:
    """Take the `#` from the `components:` above the line `below`."""
    for number in range(below, -1, -1):
        if match := _COMPONENTS.fullmatch(lines[number].rstrip("\r")):
            lines[number] = lines[number].removeprefix(match["off"] or "")
            return


def _components(lines: list[str]) -> Iterator[Component]:
    inside = False
    for number, line in enumerate(line.rstrip("\r") for line in lines):
        if _COMPONENTS.fullmatch(line):
            inside = True
        elif inside and (match := _COMPONENT.fullmatch(line)):
            path = match["path"].rstrip("/")
            yield Component(path.rpartition("/")[2], path, match["off"] is None, number)
        elif line[:1] not in ("", " ", "\t", "#", "-"):
            inside = False


def _ids(node: yaml.Node, ids: Mapping[str, int], above: Location) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and new value of each scalar that one of `ids` is for."""
    if isinstance(node.value, str):
        if above[-3:-1] == _POD_LEVEL and above[-1] in ids:
            assert node.start_mark
            assert node.end_mark
            yield node.start_mark.index, node.end_mark.index, ids[str(above[-1])]
        return
    for entry in node.value:
        key, child = entry if isinstance(entry, tuple) else (None, entry)
        yield from _ids(child, ids, (*above, key.value if key else 0))


def _with_ids(value: Any, ids: Mapping[str, int], above: Location) -> Any:
    if isinstance(value, dict):
        return {key: _with_ids(child, ids, (*above, key)) for key, child in value.items()}
    if isinstance(value, list):
        return [_with_ids(child, ids, (*above, 0)) for child in value]
    return ids[str(above[-1])] if above[-3:-1] == _POD_LEVEL and above[-1] in ids else value


def _values(value: Any, above: Location) -> Iterator[tuple[Location, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if children is None:
        yield above, value
        return
    for key, child in children:
        yield from _values(child, (*above, key))


def _listed(ids: Mapping[str, int]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in ids.items())
