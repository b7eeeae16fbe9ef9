"""Durations and times in configurations, queries and the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.base import durations
from packager.base.durations import EXPECTED
from packager.base.problems import show

if TYPE_CHECKING:
    from datetime import tzinfo

_LONGEST = timedelta(days=36_500)


def as_text(time: datetime) -> str:
    """Return a time in the format of the database and of responses: RFC 3339 in UTC, which sorts as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def now() -> str:
    """Return the current time in the format of the database."""
    return as_text(datetime.now(UTC))


def duration(text: str) -> timedelta:
    """Return the duration in a text. Raises ValueError if the text is invalid, 0, or longer than a hundred years."""
    length = durations.parse(text, _LONGEST)
    if not length:
        raise ValueError(f"{EXPECTED}, found {show(text)}")
    return length


def moment(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return the time in a text: in RFC 3339, or as a duration before `now`.

    Args:
        text: The text.
        now: The end of a duration.
        zone: The zone of times and dates without one; if it is None, these are refused.

    Raises:
        ValueError: The text is not a time.
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
