"""Checks numbers in manifests against the ranges that Kubernetes accepts. Tests: verify/test_manifests.py."""

from __future__ import annotations

from typing import Any

from packager.kubernetes.manifest import integer

INT32 = (1 << 31) - 1
_INT64 = (1 << 63) - 1


def out_of_range(value: Any, limits: tuple[int, int | None]) -> str | None:
    """Return the expected and the actual value if `value` is a whole number outside of its limits; else None.

    Args:
        value: The value in the manifest; the check of the schema reports values that are not numbers.
        limits: The least, and the most; None for as much as a number can be.
    """
    number, (least, most) = integer(value), limits
    if number is None or least <= number <= (most or _INT64):
        return None
    return f"expected {f'{least} to {most}' if most else f'at least {least}'}, found {number}"
