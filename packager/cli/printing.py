"""Prints the logs of a package: their bytes to stdout, remarks about them to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cli.console import emit_log, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.app.logs import Part


def print_parts(parts: Iterable[Part]) -> None:
    """Print each part as it comes."""
    for part in parts:
        if isinstance(part, bytes):
            emit_log(part)
        else:
            say(part)
