from __future__ import annotations

import json
import math

import pytest

from packager.diagnosis.curves.points import MOST_CURVES, MOST_POINTS, Curve, added, measured


def line(step: object, **values: object) -> str:
    return json.dumps({"step": step, **values}) + "\n"


def curve(lines: list[str], name: str = "loss") -> Curve:
    return added({}, "pod", lines)["pod", name]


def test_json_lines_with_a_step_become_curves() -> None:
    lines = ["starting\n", line(0, loss=2.5, accuracy=0), "Epoch 1\n", line(10, loss=1.25, accuracy=0.5), "{}\n"]
    curves = added({}, "pod", lines)
    assert {key: item.drawn for key, item in curves.items()} == {
        ("pod", "loss"): ((0, 2.5), (10, 1.25)),
        ("pod", "accuracy"): ((0, 0.0), (10, 0.5)),
    }
    assert (curves["pod", "loss"].lowest, curves["pod", "loss"].highest) == (1.25, 2.5)


def test_measured_ignores_other_lines() -> None:
    for text in [
        "",
        "step 5 loss 2",
        '{"step": 5',
        '{"step": "5", "loss": 1}',
        '{"step": true, "loss": 1}',
        '{"step": -1, "loss": 1}',
        '{"step": 1.5, "loss": 1}',
        '{"step": NaN, "loss": 1}',
        '{"step": 1e400, "loss": 1}',
        f'{{"step": {"9" * 5000}, "loss": 1}}',
        f'{{"step": {1 << 60}, "loss": 1}}',
        '{"step": 5}',
        '{"step": 5, "loss": "low", "flag": true, "nothing": null, "list": [1], "": 1}',
        f'{{"step": 5, "{"x" * 65}": 1}}',
        '{"step": 5, "a\\u001b[31m": 1}',
        '["step", 5]',
        '{"step": 5, "loss": 1, "x": ' + "[" * 100_000 + "}",
        '{"step": 5, "loss": 1, "x": "' + "y" * 20_000 + '"}',
    ]:
        assert measured(text) is None


def test_curve_has_a_gap_for_values_that_are_not_finite() -> None:
    for value in ["NaN", "Infinity", "-Infinity", "1e400", "9" * 400]:
        item = curve([line(1, loss=1), f'{{"step": 2, "loss": {value}}}\n', line(3, loss=3)])
        assert item.drawn == ((1, 1.0), (2, None), (3, 3.0))
        assert (item.lowest, item.highest) == (1.0, 3.0)


def test_long_curves_are_thinned_evenly() -> None:
    item = curve([line(step, loss=math.cos(step)) for step in range(10_000)])
    assert MOST_POINTS / 2 <= len(item.points) <= MOST_POINTS
    assert (item.drawn[0][0], item.drawn[-1][0]) == (0, 9_999)
    gaps = {second[0] - first[0] for first, second in zip(item.points, item.points[1:], strict=False)}
    assert gaps == {item.stride}
    assert (item.lowest, item.highest) == pytest.approx((-1, 1), abs=1e-6)


def test_curves_are_equal_when_a_log_is_read_in_parts() -> None:
    lines = [line(step, loss=step) for step in range(3_000)]
    curves = added(added(added({}, "pod", lines[:700]), "pod", []), "pod", lines[700:])
    assert curves == added({}, "pod", lines)


def test_repeated_steps_replace_earlier_values() -> None:
    item = curve([line(step, loss=1) for step in range(10)] + [line(step, loss=2) for step in range(5, 8)])
    assert item.drawn == (*((step, 1.0) for step in range(5)), (5, 2.0), (6, 2.0), (7, 2.0))


def test_number_of_curves_is_limited() -> None:
    values = {f"v{number}": number for number in range(100)}
    curves = added({}, "first", [line(1, **values), line(2, **values)])
    assert len(curves) == MOST_CURVES
    assert added(curves, "second", [line(1, loss=1)]) == curves
    assert curves["first", "v0"].drawn == ((1, 0.0), (2, 0.0))
