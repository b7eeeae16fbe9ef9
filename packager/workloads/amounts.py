"""Amounts: numbers that people change, each in a line of mlops.env. Tests: configure/test_amounts.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = ("WORKERS", "NODES", "REPLICAS", "PARALLELISM")
"""The keys that say how many pods work at the same time; an overlay has at most one of them, or the first counts."""


class Amount(Value, frozen=True):
    """One number.

    Attributes:
        key: The key in mlops.env.
        value: The value as built.
        description: The comment above it, and its description in the README.
        fields: The fields of the workload that take it, as fieldPaths of a kustomize replacement.
        delimiter: The text of a field before the value, which is the rest; None if the value is all of the field.
        selector: The labels that the workload has to have; None for any.
    """

    key: str
    value: str
    description: str
    fields: tuple[str, ...]
    delimiter: str | None = None
    selector: str | None = None


def deadline(seconds: int | None, *fields: str) -> Iterator[Amount]:
    """Yield the deadline, which the fields take; nothing without one."""
    if seconds is not None:
        yield Amount("DEADLINE", str(seconds), "The time in seconds after which it is stopped.", fields)
