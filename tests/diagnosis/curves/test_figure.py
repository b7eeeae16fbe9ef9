from __future__ import annotations

import math

import pytest

from packager.diagnosis.curves.figure import HEIGHT, LEFT, RIGHT, WIDTH, Figure, figures, number
from packager.diagnosis.curves.points import Curve, Point


def made(*points: Point, pod: str = "p", name: str = "loss") -> Curve:
    values = [value for _, value in points if value is not None]
    low, high = (min(values), max(values)) if values else (None, None)
    last = points[-1] if points else None
    return Curve(name=name, pod=pod, points=points, last=last, lowest=low, highest=high, count=len(points))


def test_curves_of_one_name_share_a_figure() -> None:
    first, second = figures([made((0, 1.0), (9, 2.0)), made((0, 5.0), name="lr"), made((0, 3.0), (9, 4.0), pod="q")])
    assert (first.name, [line.pod for line in first.lines]) == ("loss", ["p", "q"])
    assert second.name == "lr"
    assert first.lines[0].last == ("9", "2")
    assert [tick.text for tick in first.up] == ["1", "2", "3", "4"]
    assert first.across[0].text == "0"


def test_points_and_ticks_are_drawn_inside_the_figure() -> None:
    cases: list[list[Point]] = [
        [(0, 0.0)],
        [(5, None)],
        [(0, 1e308), (1, -1e308)],
        [(0, 1e-300), (1, 2e-300)],
        [(0, 3.0), (10**15, 3.0)],
        [(7, 1.0), (8, None), (9, 1.0)],
        [(step, math.sin(step)) for step in range(500)],
        [(0, 1.0), (1, 1.0 + 1e-15)],
    ]
    for points in cases:
        figure = check(points, is_logarithmic=False)
        assert len(" ".join(figure.lines[0].runs)) < 6_000
        check([*points, (10**16, 2.0), (10**16 + 1, 1e308)], is_logarithmic=True)


def check(points: list[Point], *, is_logarithmic: bool) -> Figure:
    """Return the figure of a curve, after a check that everything is inside."""
    (figure,) = figures([made(*points)], is_logarithmic=is_logarithmic)
    for tick in (*figure.across, *figure.up):
        assert 0 <= tick.at <= WIDTH
    for run in figure.lines[0].runs:
        for pair in run.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT
    assert 1 <= len(figure.strips) <= 81
    assert sum(strip.width for strip in figure.strips) == pytest.approx(WIDTH - LEFT - RIGHT, abs=5)
    return figure


def test_logarithmic_scale_has_round_ticks_and_gaps_below_zero() -> None:
    points: list[Point] = [(0, 0.03), (1, 0.0), (2, -1.0), (3, 0.4), (4, 0.3)]
    figure = check(points, is_logarithmic=True)
    assert [tick.text for tick in figure.up] == ["0.02", "0.05", "0.1", "0.2", "0.5"]
    assert (len(figure.lines[0].runs), len(figure.lines[0].dots)) == (1, 1)
    (wide,) = figures([made((0, 1e-4), (1, 264.0))], is_logarithmic=True)
    assert [tick.text for tick in wide.up] == ["0.0001", "0.01", "1", "100"]


def test_strip_has_the_values_of_all_curves_that_reach_its_step() -> None:
    (figure,) = figures([made((0, 1.0), (10, 2.0)), made((0, 5.0), (4, None), pod="q")])
    assert [strip.text.split("\n") for strip in figure.strips] == [
        ["step 0", "p: 1", "q: 5"],
        ["step 4", "p: 1", "q: not a number"],
        ["step 10", "p: 2"],
    ]


def test_gap_divides_a_line_and_lone_point_is_a_dot() -> None:
    (figure,) = figures([made((0, 1.0), (1, 2.0), (2, None), (3, 1.0), (4, None), (5, 1.0), (6, 2.0))])
    assert (len(figure.lines[0].runs), len(figure.lines[0].dots)) == (2, 1)


def test_numbers_are_shown_with_four_digits_at_most() -> None:
    for value, text in [(None, "not a number"), (0.0, "0"), (0.123456, "0.1235"), (12_345_678, "1.23e+07")]:
        assert number(value) == text
