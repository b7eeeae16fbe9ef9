"""Durations and times, as configurations and queries have them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from packager.base.problems import show

_DURATION = re.compile(r"([1-9][0-9]{0,6})(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST = timedelta(days=36_500)

EXPECTED = "expected a duration such as 90s, 10m, 12h or 30d"
"""What is said of a text that is no duration."""


def duration(text: str) -> timedelta:
    """Return a duration. Raises ValueError, with a message, if it is none, or longer than a hundred years."""
    match = _DURATION.fullmatch(text)
    length = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None
    if length is None or length > _LONGEST:
        raise ValueError(f"{EXPECTED}, found {show(text)}")
    return length


def moment(text: str, now: datetime) -> datetime:
    """Return a time: one in RFC 3339, or as long ago as a duration says. Raises ValueError, with a message."""
    try:
        return now - duration(text)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(f"{EXPECTED}, or a time such as 2026-11-22T10:00:00Z, found {show(text)}")
    return time.astimezone(UTC)
