"""Edits site/placement.yaml, the values of the option `placement`, and keeps its comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.yamlio import Document, Location

_POD: Location = ("template", "spec")


def assign(text: bytes, fields: Mapping[str, Any], name: str) -> bytes:
    """Return the file with other values for fields of its pod that it has: nodeSelector, tolerations.

    Args:
        text: The file.
        fields: The new values, which are not empty.
        name: How messages name the file.

    Raises:
        UsageError: The file is not YAML, or cannot be edited automatically.
    """
    document, problems = yamlio.load(text, name)
    if problems:
        raise UsageError(f"{name} cannot be edited", problems=problems)
    hint = f"set {' and '.join(fields)} there"
    try:
        edited = yamlio.spliced(text, [_splice(document, (*_POD, key), value) for key, value in fields.items()])
    except KeyError:
        raise UsageError(f"{name} cannot be edited automatically", hint=hint) from None
    changed, problems = yamlio.load(edited, name)
    if problems or changed.data != _with(document.data, _POD, fields):
        raise UsageError(f"{name} cannot be edited automatically", hint=hint)
    return edited


def _splice(document: Document, location: Location, value: Any) -> tuple[int, int, str]:
    start, end, column = document.span(location)
    last, data = location, _at(document.data, location)
    while isinstance(data, dict | list) and data:  # the end of a block is behind the comments that follow it
        step = list(data)[-1] if isinstance(data, dict) else len(data) - 1
        last, data = (*last, step), data[step]
        end = document.span(last).end
    lines = yamlio.dump([value]).rstrip("\n").split("\n")
    return start, end, f"\n{' ' * column}".join(lines)


def _at(data: Any, location: Location) -> Any:
    for step in location:
        data = data[step] if isinstance(data, dict) else {}
    return data


def _with(data: Any, location: Location, fields: Mapping[str, Any]) -> Any:
    if not location:
        return {**data, **fields} if isinstance(data, dict) else data
    if not isinstance(data, dict) or location[0] not in data:
        return data
    return {**data, location[0]: _with(data[location[0]], location[1:], fields)}
