from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from packager.base import durations

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


def test_duration_is_a_number_of_each_unit_up_to_a_hundred_years() -> None:
    for text, seconds in (("90s", 90), ("30d", 2_592_000), ("1h30m", 5_400), ("1.5h", 5_400)):
        assert durations.duration(text) == timedelta(seconds=seconds)
        assert durations.moment(text, NOW) == NOW - timedelta(seconds=seconds)
    for text in ("", "0d", "1", "٣d", "1h" * 30):
        with pytest.raises(ValueError, match=r"^expected a duration such as 90s, 1h30m or 7d, found "):
            durations.duration(text)
    with pytest.raises(ValueError, match=r"^expected at most 36500d, found '36501d'$"):
        durations.duration("36501d")


def test_moment_has_a_zone_and_a_year_from_1_to_9999() -> None:
    assert durations.moment("2026-11-22T11:00:00+02:00", NOW) == NOW - timedelta(hours=1)
    for text in ("2026-11-22T11:00:00", "yesterday", "2026-13-01T00:00:00Z"):
        with pytest.raises(ValueError, match=r"or a time such as 2026-11-22T10:00:00Z, found "):
            durations.moment(text, NOW)
    for text in ("2026-11-22", "2026-11-22T00:00", "2026-11-22T01:00:00+01:00"):
        assert durations.moment(text, NOW, zone=UTC) == NOW - timedelta(hours=10)
    with pytest.raises(ValueError, match=r"^expected a time of the years 1 to 9999 in UTC, found "):
        durations.moment("0001-01-01T00:00:00+01:00", NOW)
