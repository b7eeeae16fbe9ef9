from __future__ import annotations

import re

from packager.diagnosis.curves import figure
from packager.diagnosis.curves.points import Curve, added


def drawn(curves: list[Curve], columns: int, rows: int) -> list[str]:
    """Return a drawing with an asterisk for each braille character."""
    return [re.sub("[\u2801-\u28ff]", "*", line) for line in figure.drawn(curves, columns, rows)]


def curves(*values: str, pod: str = "p") -> list[Curve]:
    lines = [f'{{"step": {step}, "loss": {value}}}' for step, value in enumerate(values)]
    return list(added({}, pod, lines).values())


def test_a_falling_line_goes_from_the_upper_left_to_the_lower_right() -> None:
    assert drawn(curves("4", "3", "2", "1", "0"), 20, 4) == [
        "4 │****",
        "  │   *****",
        "  │       *******",
        "0 │             ****",
        "   0               4",
    ]


def test_a_character_has_eight_dots() -> None:
    assert figure.drawn(curves("0", "1"), 12, 2) == ["1 │    ⢀⡠⠤⠒⠉", "0 │⣀⠤⠒⠊⠁", "   0       1"]


def test_extreme_values_fit_into_the_drawing() -> None:
    for values in [("-1.7e308", "1.7e308"), ("1e-320", "2e-320"), ("0", "0")]:
        lines = drawn(curves(*values), 40, 5)
        assert len(lines) == 6
        assert max(map(len, lines)) <= 40


def test_values_that_are_not_finite_are_gaps() -> None:
    assert drawn(curves("NaN"), 20, 4) == ["no finite values"]
    whole = drawn(curves("1", "1", "1", "1", "1"), 20, 2)
    parted = drawn(curves("1", "1", "NaN", "1", "1"), 20, 2)
    assert sum(line.count("*") for line in parted) < sum(line.count("*") for line in whole)
