"""Draws curves: computes the positions of lines, ticks and labels in an SVG of fixed size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.diagnosis.curves.points import Curve, Point

WIDTH, HEIGHT = 480, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 10, 26
_MOST_LINES = 8
_MOST_DRAWN = 250
_TICKS = 4


class Tick(Value, frozen=True):
    """A mark on an axis: its position and its label."""

    at: float
    text: str


class DrawnLine(Value, frozen=True):
    """The curve of one pod."""

    pod: str  # the pod
    runs: tuple[str, ...]  # the points of each part without gaps, in the format of SVG
    dots: tuple[tuple[float, float], ...]  # the points that have no neighbours
    last: tuple[str, str]  # the last step and value, as texts
    lowest: str  # the lowest value, as text
    highest: str  # the highest value, as text


class Figure(Value, frozen=True):
    """The curves of one name."""

    name: str  # the name
    lines: tuple[DrawnLine, ...]  # A curve for each pod
    across: tuple[Tick, ...]  # the ticks of the steps
    up: tuple[Tick, ...]  # the ticks of the values


def figures(curves: Sequence[Curve]) -> list[Figure]:
    """Return a figure for each name, with a line for each of at most eight pods."""
    names = dict.fromkeys(curve.name for curve in curves)
    return [_figure(name, [curve for curve in curves if curve.name == name][:_MOST_LINES]) for name in names]


def number(value: float | None) -> str:
    """Return a number as text with four digits at most; `not a number` for None."""
    return "not a number" if value is None else f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3g}"


def _figure(name: str, curves: Sequence[Curve]) -> Figure:
    steps = [step for curve in curves for step, _ in curve.drawn]
    values = [value for curve in curves for _, value in curve.drawn if value is not None]
    first, last = (min(steps), max(steps)) if steps else (0, 1)
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    marks = _ticks(low, high)
    low, high = min(low, marks[0]), max(high, marks[-1])

    def across(step: float) -> float:
        return round(LEFT + (_WIDE if last == first else _WIDE * (step - first) / (last - first)), 1)

    def up(value: float) -> float:
        share = 0.5 if high == low else (value / 2 - low / 2) / (high / 2 - low / 2)  # the difference may be infinite
        return round(TOP + _HIGH * (1 - share), 1)

    lines = []
    for curve in curves:
        runs, dots = _runs([(across(step), None if value is None else up(value)) for step, value in _thinned(curve)])
        step, value = curve.last or (0, None)
        lines.append(
            DrawnLine(curve.pod, runs, dots, (f"{step:,}", number(value)), number(curve.lowest), number(curve.highest))
        )
    whole = [mark for mark in _ticks(first, last) if first <= mark <= last and float(mark).is_integer()]
    return Figure(
        name,
        tuple(lines),
        tuple(Tick(across(mark), number(mark)) for mark in whole or [first]),
        tuple(Tick(up(mark), number(mark)) for mark in marks),
    )


_WIDE = WIDTH - LEFT - RIGHT
_HIGH = HEIGHT - TOP - BOTTOM


def _thinned(curve: Curve) -> Sequence[Point]:
    points = curve.drawn
    every = math.ceil(len(points) / _MOST_DRAWN)
    return points if every < 2 else (*points[:-1:every], points[-1])


def _runs(
    points: Sequence[tuple[float, float | None]],
) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Return the parts of a line between its gaps, and the points without neighbours."""
    parts: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            parts.append([])
        else:
            parts[-1].append((x, y))
    runs = tuple(" ".join(f"{x:g},{y:g}" for x, y in part) for part in parts if len(part) > 1)
    return runs, tuple(part[0] for part in parts if len(part) == 1)


def _ticks(low: float, high: float) -> list[float]:
    """Return some round numbers from at or below the lowest to at or above the highest."""
    width = high - low
    if not math.isfinite(width) or width <= abs(high) * 1e-12:
        return [low]
    rough = width / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    size = next((power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough), power * 10)
    start, end = math.floor(low / size), math.ceil(high / size)
    return [index * size for index in range(start, min(end, start + 2 * _TICKS) + 1)]
