"""Replaces `${a.b}` in the values of an MLCube, never variables. Tests: modelspec/importers/mlcube/test_read.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.modelspec.importers.mlcube.paths import ROOT, WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{([^{}$]*)\}")
_DEEPEST = 8
_LONGEST = 4096

WORKSPACES = ("workspace", "runtime.workspace")
"""The names by which a cube refers to the workspace."""

PATH_SYMBOLS = {**dict.fromkeys(WORKSPACES, WORKSPACE), "runtime.root": ROOT}
"""The symbols that replace the runner's own names in a path."""


class InterpolationError(ValueError):
    """A reference to a missing key or to a key without a scalar value, or references in a circle."""


def resolved(text: str, data: Any, names: Mapping[str, str]) -> str:
    """Return `text` with each `${a.b}` replaced by the value at `a.b` in `data`.

    Args:
        text: The text.
        data: The whole file.
        names: The values of names that are not in the file.

    Raises:
        InterpolationError: A reference cannot be replaced.
    """
    if WORKSPACE in text or ROOT in text:
        raise InterpolationError("expected text without control characters")
    for _ in range(_DEEPEST):
        if not _REFERENCE.search(text):
            return text
        if len(text) > _LONGEST:
            raise InterpolationError(f"expected at most {_LONGEST} characters in a text with references")
        text = _REFERENCE.sub(lambda match: _value(match[1].strip(), data, names), text)
        if len(text) > _LONGEST:
            raise InterpolationError(f"its references expand to more than {_LONGEST} characters")
    raise InterpolationError(f"its references are more than {_DEEPEST} deep, or in a circle")


def references(text: str) -> list[str]:
    """Return the names in each `${a.b}` of a text."""
    return [name.strip() for name in _REFERENCE.findall(text)]


def _value(name: str, data: Any, names: Mapping[str, str]) -> str:
    if name in names:
        return names[name]
    if name in PATH_SYMBOLS:
        raise InterpolationError(f"${{{name}}} is a folder, which has no place here")
    node = data
    for step in name.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, str | int | float):
        value = str(node)
        if len(value) > _LONGEST:
            raise InterpolationError(f"${{{name}}} has more than {_LONGEST} characters")
        if WORKSPACE in value or ROOT in value:
            raise InterpolationError("expected text without control characters")
        return value
    raise InterpolationError(f"${{{name}}} is not a value of the file")
