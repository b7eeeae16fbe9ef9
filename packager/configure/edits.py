"""Reads the known edits of a file, which `mlpack configure` makes too, and makes them in another version of the file.

Known edits are values of keys in an env file, options switched and components added in a kustomization, and ids in a
patch. Any other change is a change of lines, which `merge` treats.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.package import ids, kustomization, layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SWITCH = ("off", "on")


class EditKind(StrEnum):
    """The kinds of known edits."""

    value = "value"
    option = "option"
    component = "component"
    id = "id"


class Edit(Value, frozen=True):
    """A known edit."""

    path: str  # the file, below the package's root
    kind: EditKind  # the kind of the edit
    # the key of an env file, the name of an option, the path of an added component, or the key of a security context
    key: str
    # the value before; `on` or `off` for an option; None for a key that was not set, and for a component that was not
    # listed
    before: str | None
    after: str  # the value after the edit


def read(path: str, before: bytes, now: bytes) -> tuple[Edit, ...]:
    """Return the known edits that a file has, in the order of its content."""
    try:
        if path.endswith(".env"):
            return tuple(_values(path, before, now))
        if posixpath.basename(path) == layout.KUSTOMIZATION:
            return tuple(_components(path, before, now))
        return tuple(_ids(path, before, now)) if layout.is_patch(path) else ()
    except (UsageError, UnicodeDecodeError):
        return ()  # a file that is not YAML has no known edits


def state(edit: Edit, text: bytes) -> str | None:
    """Return the value that a version of the edit's file has; None if it is not set there, or not offered."""
    if edit.kind is EditKind.value:
        return next((line.value for line in envfile.lines(text) if line.key == edit.key), None)
    if edit.kind is EditKind.id:
        values = ids.values(text, edit.path).get(edit.key, ())
        return ", ".join(dict.fromkeys(map(str, values))) or None
    components = kustomization.components(text, edit.path)
    is_option = edit.kind is EditKind.option
    return next((_SWITCH[part.on] for part in components if edit.key == (part.name if is_option else part.path)), None)


def has_place(edit: Edit, text: bytes) -> bool:
    """Return whether a version of the edit's file has a line for the edit; a key that was added needs none."""
    if edit.kind is not EditKind.value:
        return state(edit, text) is not None
    return edit.key in envfile.keys(text)


def replayed(text: bytes, edits: Sequence[Edit]) -> bytes:
    """Return a file with known edits made in it."""
    for edit in edits:
        if edit.kind is EditKind.value:
            text = envfile.assign(text, edit.key, edit.after, edit.path)
        elif edit.kind is EditKind.id:
            text = ids.assign(text, {edit.key: int(edit.after)}, edit.path)
        elif edit.kind is EditKind.component and state(edit, text) is None:
            text = kustomization.add(text, edit.key, edit.path)
        else:
            text = kustomization.switch(text, posixpath.basename(edit.key), edit.path, on=edit.after == _SWITCH[1])
    return text


def _values(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    rows = now.split(b"\n")
    lines = list(envfile.lines(now))
    keys = Counter(line.key for line in lines)
    old = {line.key: line.value for line in envfile.lines(before)}
    own = set(envfile.keys(before))
    # Below the last comment and the last own key are only lines of added keys, as `mlpack configure --add` writes them.
    last = max(
        (
            number
            for number, row in enumerate(rows, start=1)
            if row.lstrip().startswith(b"#") or row.partition(b"=")[0].decode(errors="replace") in own
        ),
        default=0,
    )
    for line in lines:
        is_plain = rows[line.number - 1].removesuffix(b"\r") == f"{line.key}={line.value}".encode()
        is_known = line.key in own or line.number > last
        if not is_plain or not is_known or keys[line.key] > 1 or not re.fullmatch(envfile.NAME, line.key):
            continue
        if re.fullmatch(envfile.VALUE, line.value) and old.get(line.key) != line.value:
            yield Edit(path, EditKind.value, line.key, old.get(line.key), line.value)


def _components(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    """Yield the switches, and the components that a kustomization lists and neither listed nor offered before.

    They are in the order of the list: each is added below those that are listed by then, as `mlpack configure` does.
    """
    old = {component.path: component for component in kustomization.components(before, path)}
    current = kustomization.components(now, path)
    names = Counter(component.name for component in current)
    for component in current:
        earlier = old.get(component.path)
        if earlier and earlier.on is not component.on and names[component.name] == 1:
            yield Edit(path, EditKind.option, component.name, _SWITCH[earlier.on], _SWITCH[component.on])
        elif earlier is None and component.on:
            yield Edit(path, EditKind.component, component.path, None, _SWITCH[1])


def _ids(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    """Yield the ids that differ; one that is not the same in all places of a patch is no known edit."""
    old = ids.values(before, path)
    for key, values in ids.values(now, path).items():
        if len(set(values)) == 1 and len(set(old.get(key, ()))) == 1 and ids.is_id(values[0]) and values != old[key]:
            yield Edit(path, EditKind.id, key, str(old[key][0]), str(values[0]))
