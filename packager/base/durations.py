"""Reads durations in the form that kubectl takes, with days and weeks besides. Tests: service/test_times.py."""

from __future__ import annotations

import re
from datetime import timedelta

from packager.base.problems import show

_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_LONGEST_TEXT = 40

EXPECTED = "expected a duration such as 90s, 1h30m or 7d"
"""The message about a text that is not a duration."""


def parse(text: str, longest: timedelta) -> timedelta:
    """Return the duration that a text means: a number with a unit, or several, which are added.

    Raises:
        ValueError: The text is not a duration, or longer than `longest`; with a message.
    """
    parts = _PART.findall(text[:_LONGEST_TEXT])
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{EXPECTED}, found {show(text)}")
    length = timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))
    if length > longest:
        raise ValueError(f"expected at most {longest.days}d, found {show(text)}")
    return length
