"""Marks the places of a file where an upgrade needs a decision, and finds these marks.

In YAML and programs these are the marks of diff3, with which no file renders. In an env file kustomize would take such
a line for a key, so a comment is above the user's line there.

Tests: configure/upgrade/test_replay.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

YOURS, BASE, MIDDLE, THEIRS = (character * 7 for character in "<|=>")
"""The marks before the user's lines, before the delivered ones, before the new ones, and after them."""

COMMENT = "# mlpack-conflict:"
"""The beginning of the comment in an env file."""

_MARK = re.compile(rb"^(<{7} |\|{7} |>{7} )", re.MULTILINE)
_COMMENT = re.compile(rb"^[ \t]*# mlpack-conflict:", re.MULTILINE)


def places(path: str, content: bytes) -> Iterator[int]:
    """Yield the number of each line of a file that is a mark; three of them belong to one place.

    Args:
        path: The path of the file.
        content: The content of the file.
    """
    pattern = _COMMENT if path.endswith(".env") else _MARK
    for match in pattern.finditer(content):
        if path.endswith(".env") or match[0].startswith(YOURS.encode()):
            yield content.count(b"\n", 0, match.start()) + 1
