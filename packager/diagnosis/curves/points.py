"""Reads curves from the lines of a log: a line of JSON with a `step` adds a point to a curve for each other number.

The output of programs is not trusted: the numbers of curves and points and the length of names are limited, and values
that are not numbers are left out.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from packager.base.values import Fields, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_CURVES = 24
"""The maximum number of curves of a job."""

MOST_POINTS = 500
"""The maximum number of kept points of a curve: when it is exceeded, every second point is dropped."""

LONGEST_LINE = 16 << 10
_LONGEST_NAME = 64
_HIGHEST_STEP = 1 << 53  # the largest integer that JavaScript, and many readers of JSON, represent exactly

STEP = "step"

Point = tuple[int, float | None]
"""A step and a value; None for a value that is not finite, such as NaN, where the curve has a gap."""


class Curve(Fields, frozen=True, kw_only=True):
    """The values of one key of one pod over the steps."""

    name: str  # the key in the lines
    pod: str  # the pod that has printed the lines
    points: tuple[Point, ...] = ()  # the kept points, in the order of their steps
    last: Point | None = None  # the last point, also if it is not kept
    lowest: float | None = None  # the lowest value of all points
    highest: float | None = None  # the highest value of all points
    count: int = 0  # the number of points since the last repeated step
    stride: int = 1  # the number of points for each kept point

    @property
    def drawn(self) -> tuple[Point, ...]:
        """The kept points, and the last point."""
        is_kept = self.last is None or (bool(self.points) and self.points[-1] == self.last)
        return self.points if is_kept or self.last is None else (*self.points, self.last)


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a log that may have a point, from its bytes in pieces of any size; omit too long lines."""
    rest, is_long = b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if not is_long and STEP.encode() in line:
                yield line.decode(errors="replace")
            is_long = False
        if len(rest) > LONGEST_LINE:
            rest, is_long = b"", True
    if rest and not is_long:
        yield rest.decode(errors="replace")


def measured(line: str) -> tuple[int, dict[str, float | None]] | None:
    """Return the step and the other numbers in a line of a log; None for other lines."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}") and len(text) <= LONGEST_LINE and f'"{STEP}"' in text):
        return None
    try:
        values = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return None
    step = values.get(STEP)
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _HIGHEST_STEP:
        return None
    numbers = {
        name: float(value) if math.isfinite(value) else None
        for name, value in values.items()
        if name != STEP and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return (step, numbers) if numbers else None


def added(curves: Mapping[tuple[str, str], Curve], pod: str, lines: Iterable[str]) -> dict[tuple[str, str], Curve]:
    """Return curves with the points from further lines of a pod's log."""
    result = dict(curves)
    growing: dict[str, _Growing] = {}
    for line in lines:
        point = measured(line)
        for name, value in point[1].items() if point else ():
            if name not in growing:
                curve = result.get((pod, name))
                if curve is None and len(result) >= MOST_CURVES:
                    continue
                growing[name] = _Growing(curve or Curve(name=name, pod=pod))
                result[pod, name] = growing[name].curve
            assert point is not None
            growing[name].add(point[0], value)
    for name, item in growing.items():
        result[pod, name] = item.finished()
    return result


class _Growing:
    """A curve to which points are added."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self._points = list(curve.points)
        self._last = curve.last
        self._values = [value for value in (curve.lowest, curve.highest) if value is not None]
        self._count, self._stride = curve.count, curve.stride

    def add(self, step: int, value: float | None) -> None:
        if self._last is not None and step <= self._last[0]:
            # The program continues from a checkpoint: repeated steps replace the earlier points.
            self._points = [point for point in self._points if point[0] < step]
            self._count = len(self._points) * self._stride
        self._last = (step, value)
        if value is not None:
            low, high = min((*self._values, value)), max((*self._values, value))
            self._values = [low, high]
        if self._count % self._stride == 0:
            self._points.append(self._last)
            if len(self._points) > MOST_POINTS:
                self._points = self._points[::2]
                self._stride *= 2
        self._count += 1

    def finished(self) -> Curve:
        return replace(
            self.curve,
            points=tuple(self._points),
            last=self._last,
            lowest=self._values[0] if self._values else None,
            highest=self._values[-1] if self._values else None,
            count=self._count,
            stride=self._stride,
        )
