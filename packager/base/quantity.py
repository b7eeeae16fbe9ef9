"""Converts Kubernetes quantities to numbers (apimachinery, pkg/api/resource: decimal, binary, exponent suffixes)."""

from __future__ import annotations

import re
from decimal import Decimal

_FORM = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,3})")
_SCALES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse(text: str) -> Decimal:
    """Return the number that a quantity means: 500m is 0.5, 4Gi is 4294967296.

    Raises:
        ValueError: `text` is not a quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    number, suffix = match.groups()
    return Decimal(number) * (_SCALES.get(suffix) or Decimal(f"1{suffix}"))
