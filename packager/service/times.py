"""Times in the database and in responses."""

from __future__ import annotations

from datetime import UTC, datetime


def as_text(time: datetime) -> str:
    """Return a time in the format of the database and of responses: RFC 3339 in UTC, which sorts as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def now() -> str:
    """Return the current time in the format of the database."""
    return as_text(datetime.now(UTC))
