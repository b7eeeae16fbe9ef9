"""Draws the curves of one name as lines of text, with braille characters of two by four dots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from packager.diagnosis.curves.figure import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.diagnosis.curves.points import Curve, Point

# The bits of the dots of a braille character, from its top row to the lowest, left dot first (Unicode, U+2800).
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE = 0x2800


def drawn(curves: Sequence[Curve], columns: int, rows: int) -> list[str]:
    """Return a drawing of curves of one name, with the highest and the lowest value and the first and the last step.

    Args:
        curves: The curves, all with one scale. Values that are not finite are gaps.
        columns: The width in characters, at least 20.
        rows: The height of the curves in lines, at least 2.
    """
    points = [[(step, value) for step, value in curve.drawn if value is not None] for curve in curves]
    steps = [step for curve in points for step, _ in curve]
    values = [value for curve in points for _, value in curve]
    if not values:
        return ["no finite values"]
    labels = (number(max(values)), number(min(values)))
    margin = max(map(len, labels))
    canvas = _Canvas(max(columns - margin - 2, 8), rows)
    for curve in curves:
        canvas.add(curve.drawn, (min(steps), max(steps)), (min(values), max(values)))
    edge = [labels[0].rjust(margin), *[" " * margin] * (rows - 2), labels[1].rjust(margin)]
    first, last = f"{min(steps):,}", f"{max(steps):,}"
    below = f"{'':{margin + 2}}{first}{last:>{max(canvas.columns - len(first), len(last) + 1)}}"
    texts = canvas.lines()
    return [*(f"{label} │{text}".rstrip() for label, text in zip(edge, texts, strict=True)), below.rstrip()]


class _Canvas:
    """Dots in a grid: two for each column and four for each line of text."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self._rows = columns, rows
        self._cells = [[0] * columns for _ in range(rows)]

    def add(self, points: Sequence[Point], steps: tuple[int, int], values: tuple[float, float]) -> None:
        """Draw lines between neighbouring points, scaled so that `steps` and `values` fill the grid."""
        before: tuple[int, int] | None = None
        for step, value in points:
            if value is None:
                before = None
                continue
            x = round(_share(step, *steps) * (2 * self.columns - 1))
            y = round((1 - _share(value, *values)) * (4 * self._rows - 1))
            self._line(before or (x, y), (x, y))
            before = (x, y)

    def _line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        (x, y), (across, down) = start, (end[0] - start[0], end[1] - start[1])
        length = max(abs(across), abs(down), 1)
        for part in range(length + 1):
            self._dot(x + round(across * part / length), y + round(down * part / length))

    def _dot(self, x: int, y: int) -> None:
        self._cells[y // 4][x // 2] |= _DOTS[y % 4][x % 2]

    def lines(self) -> list[str]:
        """Return the lines of text, from the highest values down."""
        return ["".join(chr(_BRAILLE + cell) if cell else " " for cell in row) for row in self._cells]


def _share(value: float, low: float, high: float) -> float:
    """Return the position of a value between two others, from 0 to 1; halves keep the difference finite."""
    width = high / 2 - low / 2
    share = (value / 2 - low / 2) / width if width else 0.5
    return share if math.isfinite(share) else 0.5
