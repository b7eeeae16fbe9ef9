"""Quantities have the values of Kubernetes, and those that a spec accepts can be parsed."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packager.base import quantity
from packager.base.fields import QuantityText


def test_quantity_has_its_value_in_kubernetes() -> None:
    values = (
        "500m=0.5 1.5=1.5 .5=0.5 5.=5 2k=2000 4Ki=4096 1M=1000000 1Ei=1152921504606846976 1e3=1000 100n=1e-7 3u=3e-6"
    )
    for text, _, value in (pair.partition("=") for pair in values.split()):
        assert quantity.parse(text) == Decimal(value)
    for text in ("", "Gi", "1core", "1Gib", "1ki", "NaN", "Infinity", "1_000"):
        with pytest.raises(ValueError, match="not a quantity"):
            quantity.parse(text)


@pytest.mark.thorough
@given(st.from_regex(r"[0-9.eE+nukmMGTPEi-]{1,12}", fullmatch=True))
def test_quantities_of_a_spec_can_be_parsed(text: str) -> None:
    try:
        msgspec.convert(text, QuantityText)
    except msgspec.ValidationError:
        return
    assert quantity.parse(text) >= 0
