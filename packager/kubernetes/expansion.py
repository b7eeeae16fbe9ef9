"""Expands `$(NAME)` in variables and commands of containers, as Kubernetes does, within a limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.names import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 2 << 20
"""The most characters that variables add to the texts of a container: Linux gives a program no more."""

_REFERENCE = re.compile(rf"\$\$|\$\(({VARIABLE})\)")


def references(text: str) -> list[str]:
    """Return the names in each `$(NAME)` of a text."""
    return [name for name in _REFERENCE.findall(text) if name]


class Expander:
    """The variables of a container, each of which may contain those before it, so that they could grow without end.

    Args:
        values: The first variables; None for a value that is unknown, whose references stay.

    Attributes:
        values: The values of the variables, without references to known ones.
        is_exceeded: Whether references stay as they are because the values together take more than `MOST`.
    """

    def __init__(self, values: Mapping[str, str | None] | None = None) -> None:
        self.values = dict(values or {})
        self.is_exceeded = False
        self._left = MOST

    def add(self, name: str, text: str | None) -> None:
        """Add a variable with the value `text`, which may contain references."""
        self.values[name] = None if text is None else self.expand(text)

    def expand(self, text: str) -> str:
        """Return a text with the values of known variables, and `$` for each `$$`."""
        return _REFERENCE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        value = "$" if match[1] is None else self.values.get(match[1])
        if value is None:
            return match[0]
        if len(value) > self._left:
            self.is_exceeded = True
            return match[0]
        self._left -= len(value)
        return value
