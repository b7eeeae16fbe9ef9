"""Prints curves: a drawing for each name, and a table of the last, lowest and highest values."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.cli.console import emit, emit_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.curves.points import Curve

_ROWS = 8
_MOST_COLUMNS = 100


def print_curves(curves: Sequence[Curve]) -> None:
    """Print a drawing of each name's curves, as wide as the terminal, and a table of all curves."""
    from packager.curves.figure import number
    from packager.curves.terminal import drawn

    columns = min(max(shutil.get_terminal_size().columns, 20), _MOST_COLUMNS)
    for name in dict.fromkeys(curve.name for curve in curves):
        emit(name)
        for line in drawn([curve for curve in curves if curve.name == name], columns, _ROWS):
            emit(line)
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
    emit_table([("NAME", "POD", "STEP", "LAST", "LOWEST", "HIGHEST"), *rows], gap="  ")
