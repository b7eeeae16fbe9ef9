"""Converts a configuration to its type, and explains every fault of a faulty one.

Tests: site/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from packager.base.values import Fields, FieldsError, convert, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packager.base.problems import Fault, Problem
    from packager.base.yamlio import Document, Location
    from packager.modelspec.validation import SchemaFault

FieldsType = TypeVar("FieldsType", bound=Fields)

_MOST_ENTRIES = 2_000
"""The most entries of a list or mapping in a configuration."""


def read(
    document: Document, kind: type[FieldsType], faults_of: Callable[[FieldsType], Iterable[Fault]]
) -> tuple[FieldsType | None, list[Problem]]:
    """Return the configuration in a document, and its problems; None if it cannot be completed."""
    if oversized := list(document.oversized(_MOST_ENTRIES)):
        return None, oversized
    settings, faults, doubtful = completed({} if document.data is None else document.data, kind)
    others = [fault for fault in (faults_of(settings) if settings else ()) if not fault.rests_on(doubtful)]
    return settings, [
        document.problem(fault.location, fault.message, hint=fault.hint, at_key=fault.at_key)
        for fault in (*faults, *others)
    ]


def completed(
    data: Any, kind: type[FieldsType], rules: Callable[[], dict[str, Any]] | None = None
) -> tuple[FieldsType | None, list[SchemaFault], list[Location]]:
    """Return a value of a type, the errors in the types of its fields, and their places.

    A value with wrong types is returned with placeholders in these places, so that the rest can be checked in the same
    run; None if no placeholders fit. `rules` returns the JSON Schema of the type, unless it is the one of msgspec.
    """
    try:
        return convert(data, kind), [], []
    except FieldsError as error:
        first = str(error)
    # Costs a slow import (60 ms), which only a wrong file pays for.
    from packager.modelspec.validation import SchemaFault, validate, with_placeholders  # noqa: PLC0415

    of_kind = rules() if rules else schema(kind)
    faults = validate(data, of_kind) or [SchemaFault((), first)]
    doubtful = [fault.location for fault in faults]
    attempt = with_placeholders(data, faults)
    for _ in range(3):  # a placeholder may not fit its neighbours: a kind with another kind's keys
        try:
            return convert(attempt, kind), faults, doubtful
        except FieldsError:
            more = validate(attempt, of_kind)
            doubtful.extend(fault.location for fault in more)
            attempt = with_placeholders(attempt, more)
    return None, faults, doubtful
