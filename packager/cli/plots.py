"""Prints curves: a drawing for each name, and a table of its values. Tests: cli/test_status.py."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.cli.console import emit, emit_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.diagnosis.curves.points import Curve

_ROWS = 8
_MOST_COLUMNS = 100


def print_curves(curves: Sequence[Curve]) -> None:
    """Print a drawing of each name's curves, as wide as the terminal, and a table of all curves."""
    from packager.cluster.status import drawn

    columns = min(max(shutil.get_terminal_size().columns, 20), _MOST_COLUMNS)
    for name in dict.fromkeys(curve.name for curve in curves):
        emit(name)
        for line in drawn([curve for curve in curves if curve.name == name], columns, _ROWS):
            emit(line)
    emit_table(_rows(curves), gap="  ")


def print_table(curves: Sequence[Curve]) -> None:
    """Print a table of the last, lowest and highest values to stderr."""
    rows = _rows(curves)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rows(curves: Sequence[Curve]) -> list[tuple[str, ...]]:
    from packager.cluster.status import number

    rows = [
        (
            curve.name,
            curve.pod,
            *((f"{curve.last[0]:,}", number(curve.last[1])) if curve.last else ("-", "-")),
            number(curve.lowest),
            number(curve.highest),
        )
        for curve in curves
    ]
    return [("NAME", "POD", "STEP", "LAST", "LOWEST", "HIGHEST"), *rows]
