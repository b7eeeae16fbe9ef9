"""Reads durations in the form that kubectl takes, with days and weeks besides, times, and quantities of Kubernetes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from packager.base.problems import show

if TYPE_CHECKING:
    from datetime import tzinfo


_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_LONGEST_TEXT = 40
_LONGEST = timedelta(days=36_500)

EXPECTED = "expected a duration such as 90s, 1h30m or 7d"
"""The message about a text that is not a duration."""


def parse_duration(text: str, longest: timedelta) -> timedelta:
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


def duration(text: str) -> timedelta:
    """Return the duration in a text. Raises ValueError if the text is invalid, 0, or longer than a hundred years."""
    length = parse_duration(text, _LONGEST)
    if not length:
        raise ValueError(f"{EXPECTED}, found {show(text)}")
    return length


def moment(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return the time in a text: in RFC 3339, or as a duration before `now`. Raises ValueError.

    Times and dates without a zone are of `zone`; if it is None, they are refused.
    """
    try:
        return now - duration(text)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is not None and time.tzinfo is None:
        time = time.replace(tzinfo=zone)
    if time is None or time.tzinfo is None:
        raise ValueError(f"{EXPECTED}, or a time such as 2026-11-22T10:00:00Z, found {show(text)}")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"expected a time of the years 1 to 9999 in UTC, found {show(text)}") from None


_FORM = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,3})")
_SCALES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> Decimal:
    """Return the number that a quantity means: 500m is 0.5, 4Gi is 4294967296.

    Raises:
        ValueError: `text` is not a quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    number, suffix = match.groups()
    return Decimal(number) * (_SCALES.get(suffix) or Decimal(f"1{suffix}"))
