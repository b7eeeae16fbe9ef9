"""Reads, validates and edits the user and group ids in a patch, and keeps every other byte.

The ids are runAsUser, runAsGroup and fsGroup of a pod's `spec.securityContext`, in a Pod or in any template; those of a
container are never changed. A patch looks like a manifest, or is a list of operations (RFC 6902). It may repeat a value
by an alias: then the one place where the value is written is changed.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.problems import show
from packager.kubernetes.manifest import with_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.problems import Problem
    from packager.base.yamlio import Document, Location

_POD_LEVEL = ("spec", "securityContext")

_ANCHOR = re.compile(r"&\S+\s+")

OPTIONS = {"runAsUser": "--uid", "runAsGroup": "--gid", "fsGroup": "--fs-group"}
"""The ids that a person sets in a patch, and the options of `mlpack configure` that set them."""

LARGEST_ID = 2**31 - 1
"""Kubernetes, pkg/apis/core/validation: IsValidUserID."""


def read(text: bytes, name: str) -> dict[str, Any]:
    """Return runAsUser, runAsGroup and fsGroup as a patch sets them first; those that it does not set are left out."""
    return {key: found[0] for key, found in values(text, name).items()}


def values(text: bytes, name: str) -> dict[str, list[Any]]:
    """Return the values of runAsUser, runAsGroup and fsGroup in a patch, one for each place, by key."""
    found: dict[str, list[Any]] = {}
    for document in yamlio.load_all(text, name)[0]:
        for key, _, value in _ids(document.data):
            found.setdefault(key, []).append(value)
    return found


def invalid_ids(text: bytes, name: str) -> Iterator[Problem]:
    """Yield the values of ids in a patch that are invalid, with their places; `name` is the file in messages."""
    for document in yamlio.load_all(text, name)[0]:
        problems = [
            document.problem(
                location,
                f"{key}: expected a whole number from 0 to {LARGEST_ID}, found {show(value)}",
                hint=f"{OPTIONS[key]} N sets it",
            )
            for key, location, value in _ids(document.data)
            if not is_id(value)
        ]
        yield from dict.fromkeys(problems)  # an alias repeats the problems of its anchor


def assign(text: bytes, ids: Mapping[str, int], name: str) -> bytes:
    """Return a patch with the ids of every pod's security context that it sets; `name` is the file in messages."""
    documents, problems = yamlio.load_all(text, name)
    if problems:
        raise UsageError(f"{name} cannot be edited", problems=problems)
    new = [{location: ids[key] for key, location, _ in _ids(document.data) if key in ids} for document in documents]
    edited = _replaced(text, documents, new)
    if edited is None:
        listed = ", ".join(f"{key}: {value}" for key, value in ids.items())
        raise UsageError(f"{name} cannot be edited automatically", hint=f"set {listed} there")
    return edited


def with_ids_of(text: bytes, other: bytes) -> bytes:
    """Return the patch `text` with the whole numbers that the patch `other` has in the places of its ids.

    The patch is returned unchanged if one of them is not YAML, or cannot be edited automatically.
    """
    (documents, problems), (others, other_problems) = (yamlio.load_all(patch, "") for patch in (text, other))
    if problems or other_problems:
        return text
    found = [{(key, place): value for key, place, value in _ids(document.data)} for document in others]
    found += [{}] * (len(documents) - len(found))
    new = [
        {place: ids[key, place] for key, place, _ in _ids(document.data) if is_id(ids.get((key, place)))}
        for document, ids in zip(documents, found, strict=False)
    ]
    return _replaced(text, documents, new) or text


def _replaced(text: bytes, documents: Sequence[Document], new: Sequence[Mapping[Location, int]]) -> bytes | None:
    """Return `text` with the new values of each document; None, where they would not be all that changes."""
    source = text.decode("utf-8-sig")
    splices, expected = [], []
    for document, places in zip(documents, new, strict=True):
        for location, value in places.items():
            start, end, _ = document.span(location)
            if anchor := _ANCHOR.match(source, start, end):
                start = anchor.end()
            splices.append((start, end, f" {value}" if start == end else str(value)))
        expected.append(reduce(lambda data, item: with_value(data, *item), places.items(), document.data))
    edited = yamlio.spliced(text, splices)
    changed, problems = yamlio.load_all(edited, "")
    return edited if not problems and [document.data for document in changed] == expected else None


def _ids(data: Any) -> Iterator[tuple[str, Location, Any]]:
    """Yield the field, the location and the value of each id of a pod, in a patch of either form."""
    if not isinstance(data, list):
        yield from _below(data, (), ())
        return
    for index, operation in enumerate(data):
        path = operation.get("path") if isinstance(operation, dict) else None
        if isinstance(path, str) and operation.get("op") in ("add", "replace"):
            yield from _below(operation.get("value"), tuple(path.split("/")[1:]), (index, "value"))


def _below(value: Any, path: Location, location: Location) -> Iterator[tuple[str, Location, Any]]:
    """Yield the ids in `value`, which is set at `path` of a manifest, by the patch's value at `location`."""
    if path[-3:-1] == _POD_LEVEL and path[-1] in OPTIONS:
        yield str(path[-1]), location, value
        return
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _below(child, (*path, key), (*location, key))


def is_id(value: Any) -> bool:
    """Return whether a value is a whole number that a user or group can have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_ID
