from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packager.base import units
from packager.base.fields import QuantityText

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


def test_duration_is_a_number_of_each_unit_up_to_a_hundred_years() -> None:
    for text, seconds in (("90s", 90), ("30d", 2_592_000), ("1h30m", 5_400), ("1.5h", 5_400)):
        assert units.duration(text) == timedelta(seconds=seconds)
        assert units.moment(text, NOW) == NOW - timedelta(seconds=seconds)
    for text in ("", "0d", "1", "٣d", "1h" * 30):
        with pytest.raises(ValueError, match=r"^expected a duration such as 90s, 1h30m or 7d, found "):
            units.duration(text)
    with pytest.raises(ValueError, match=r"^expected at most 36500d, found '36501d'$"):
        units.duration("36501d")


def test_moment_has_a_zone_and_a_year_from_1_to_9999() -> None:
    assert units.moment("2026-11-22T11:00:00+02:00", NOW) == NOW - timedelta(hours=1)
    for text in ("2026-11-22T11:00:00", "yesterday", "2026-13-01T00:00:00Z"):
        with pytest.raises(ValueError, match=r"or a time such as 2026-11-22T10:00:00Z, found "):
            units.moment(text, NOW)
    for text in ("2026-11-22", "2026-11-22T00:00", "2026-11-22T01:00:00+01:00"):
        assert units.moment(text, NOW, zone=UTC) == NOW - timedelta(hours=10)
    with pytest.raises(ValueError, match=r"^expected a time of the years 1 to 9999 in UTC, found "):
        units.moment("0001-01-01T00:00:00+01:00", NOW)


def test_quantity_has_its_value_in_kubernetes() -> None:
    values = (
        "500m=0.5 1.5=1.5 .5=0.5 5.=5 2k=2000 4Ki=4096 1M=1000000 1Ei=1152921504606846976 1e3=1000 100n=1e-7 3u=3e-6"
    )
    for text, _, value in (pair.partition("=") for pair in values.split()):
        assert units.parse_quantity(text) == Decimal(value)
    for text in ("", "Gi", "1core", "1Gib", "1ki", "NaN", "Infinity", "1_000"):
        with pytest.raises(ValueError, match="not a quantity"):
            units.parse_quantity(text)


@pytest.mark.thorough
@given(st.from_regex(r"[0-9.eE+nukmMGTPEi-]{1,12}", fullmatch=True))
def test_quantities_of_a_spec_can_be_parsed(text: str) -> None:
    try:
        msgspec.convert(text, QuantityText)
    except msgspec.ValidationError:
        return
    assert units.parse_quantity(text) >= 0
