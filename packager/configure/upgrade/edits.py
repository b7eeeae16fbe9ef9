"""Reads the known edits of a file, which `mlpack configure` makes too, and makes them in another version of the file.

Known edits are values of keys in an env file, options switched, components added and images replaced in a
kustomization, and ids in a patch. Any other change is a change of lines, which `lines` and `merge` treat.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.masking import masked_line
from packager.base.values import Value
from packager.package import ids, kustomization, layout
from packager.package.kustomization import ImageEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_SWITCH = ("off", "on")

_MOST_BYTES = 2 << 20
"""The maximum of the size of a file times the number of its known edits: each edit reads the whole file again."""


class EditKind(StrEnum):
    """The kinds of known edits."""

    value = "value"
    option = "option"
    component = "component"
    image = "image"
    id = "id"


class Edit(Value, frozen=True):
    """A known edit."""

    path: str  # the file, below the package's root
    kind: EditKind  # the kind of the edit
    # the key of an env file, the name of an option, the path of an added component, an image of the manifests, or
    # the key of a security context
    key: str
    # the value before; `on` or `off` for an option; None for a key that was not set, for a component that was not
    # listed, and for an image that was not replaced
    before: str | None
    after: str  # the value after the edit

    def shown(self, value: str | None) -> str | None:
        """Return a value of this edit as it may be shown: masked if it may be a secret."""
        if value is None or self.kind is not EditKind.value:
            return value
        is_site = self.path.endswith(layout.site_env(""))
        return masked_line(f"{self.key}={value}", is_site=is_site).partition("=")[2]

    def __str__(self) -> str:
        before = "not set" if self.before is None else self.shown(self.before)
        return f"{self.kind} {self.key}: {before}  ->  {self.shown(self.after)}"


def read(path: str, before: bytes, now: bytes) -> tuple[Edit, ...]:
    """Return the known edits that a file has, in the order of its content; none if there are too many of them."""
    try:
        edits = tuple(_edits(path, before, now))
    except (UsageError, UnicodeDecodeError):
        return ()  # a file that is not YAML has no known edits
    return edits if _are_few(edits, now) else ()


def _edits(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    if path.endswith(".env"):
        yield from _values(path, before, now)
    elif posixpath.basename(path) == layout.KUSTOMIZATION:
        # In the order of the list: each is added below those that are listed by then, as `mlpack configure` has done.
        places = {key: item.offset for item in kustomization.components(now, path) for key in (item.name, item.path)}
        listed = [*_switches(path, before, now), *_components(path, before, now)]
        yield from sorted(listed, key=lambda edit: places[edit.key])
        yield from _images(path, before, now)
    elif layout.is_patch(path):
        yield from _ids(path, before, now)


def _are_few(edits: Sequence[object], text: bytes) -> bool:
    """Return whether a file has few enough edits to make them one by one."""
    return len(edits) * len(text) <= _MOST_BYTES


def state(edit: Edit, text: bytes) -> str | None:
    """Return the value that a version of the edit's file has; None if it is not set there, or not offered."""
    if edit.kind is EditKind.value:
        return next((line.value for line in envfile.lines(text) if line.key == edit.key), None)
    if edit.kind is EditKind.option:
        components = kustomization.components(text, edit.path)
        return next((_SWITCH[component.on] for component in components if component.name == edit.key), None)
    if edit.kind is EditKind.component:
        components = kustomization.components(text, edit.path)
        return next((_SWITCH[component.on] for component in components if component.path == edit.key), None)
    if edit.kind is EditKind.image:
        entries = kustomization.images(text, edit.path)
        return next((entry.image for entry in entries if entry.name == edit.key), None)
    values = ids.values(text, edit.path).get(edit.key, ())
    return ", ".join(dict.fromkeys(map(str, values))) or None


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
        elif edit.kind is EditKind.option:
            text = kustomization.switch(text, edit.key, edit.path, on=edit.after == _SWITCH[1])
        elif edit.kind is EditKind.component and state(edit, text) == _SWITCH[0]:
            text = kustomization.switch(text, posixpath.basename(edit.key), edit.path, on=True)
        elif edit.kind is EditKind.component:
            text = kustomization.add(text, edit.key, edit.path)
        elif edit.kind is EditKind.image:
            text = kustomization.set_image(text, ImageEntry.of(edit.key, edit.after), edit.path)
        else:
            text = ids.assign(text, {edit.key: int(edit.after)}, edit.path)
    return text


def undone(text: bytes, edit: Edit) -> bytes:
    """Return a kustomization without an edit of the kind `image`."""
    if edit.before is None:
        return kustomization.without_image(text, edit.key, edit.path)
    return kustomization.set_image(text, ImageEntry.of(edit.key, edit.before), edit.path)


def _values(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    rows = now.split(b"\n")
    lines = list(envfile.lines(now))
    keys = Counter(line.key for line in lines)
    old = {line.key: line.value for line in envfile.lines(before)}
    own = set(envfile.keys(before))
    last = _last_delivered(rows, own)
    for line in lines:
        is_plain = rows[line.number - 1].removesuffix(b"\r") == f"{line.key}={line.value}".encode()
        is_known = line.key in own or line.number > last
        if not is_plain or not is_known or keys[line.key] > 1 or not re.fullmatch(envfile.NAME, line.key):
            continue
        if re.fullmatch(envfile.VALUE, line.value) and old.get(line.key) != line.value:
            yield Edit(path, EditKind.value, line.key, old.get(line.key), line.value)


def _last_delivered(rows: Sequence[bytes], own: set[str]) -> int:
    """Return the number of the last line that is a comment or has one of the package's own keys; 0 without one.

    Below it are only lines of added keys, as `mlpack configure --add` writes them.
    """
    return max(
        (
            number
            for number, row in enumerate(rows, start=1)
            if row.lstrip().startswith(b"#") or row.partition(b"=")[0].decode(errors="replace") in own
        ),
        default=0,
    )


def _switches(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    old = {component.path: component for component in kustomization.components(before, path)}
    current = kustomization.components(now, path)
    names = Counter(component.name for component in current)
    for component in current:
        earlier = old.get(component.path)
        if earlier and earlier.on is not component.on and names[component.name] == 1:
            yield Edit(path, EditKind.option, component.name, _SWITCH[earlier.on], _SWITCH[component.on])


def _components(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    """Yield the components that a kustomization lists, and neither listed nor offered before."""
    old = {component.path for component in kustomization.components(before, path)}
    for component in kustomization.components(now, path):
        if component.on and component.path not in old:
            yield Edit(path, EditKind.component, component.path, None, _SWITCH[1])


def _images(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    """Yield the replaced images; an entry that `mlpack configure` would not write is no known edit."""
    old = {entry.name: entry for entry in kustomization.images(before, path)}
    current = kustomization.images(now, path)
    names = Counter(entry.name for entry in current)
    replaced = [
        entry
        for entry in current
        if entry != old.get(entry.name) and names[entry.name] == 1 and entry == ImageEntry.of(entry.name, entry.image)
    ]
    for entry in replaced if _are_few(replaced, now) else ():
        if _has_lines_of(now, entry, path):
            earlier = old.get(entry.name)
            yield Edit(path, EditKind.image, entry.name, earlier.image if earlier else None, entry.image)


def _has_lines_of(text: bytes, entry: ImageEntry, path: str) -> bool:
    written = kustomization.set_image(text, entry, path)
    return written.replace(b"\r\n", b"\n") == text.replace(b"\r\n", b"\n")


def _ids(path: str, before: bytes, now: bytes) -> Iterator[Edit]:
    """Yield the ids that differ; one that is not the same in all places of a patch is no known edit."""
    old = ids.values(before, path)
    for key, values in ids.values(now, path).items():
        if len(set(values)) == 1 and len(set(old.get(key, ()))) == 1 and ids.is_id(values[0]) and values != old[key]:
            yield Edit(path, EditKind.id, key, str(old[key][0]), str(values[0]))
