"""Converts a configuration to its type, and explains every fault of a faulty one.

Tests: site/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from packager.base.values import Fields, FieldsError, convert, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from packager.base.faults import Fault
    from packager.base.problems import Problem
    from packager.base.yamlio import Document

FieldsType = TypeVar("FieldsType", bound=Fields)

_MOST_ENTRIES = 2_000
"""The most entries of a list or mapping in a configuration."""


def read(
    document: Document, kind: type[FieldsType], faults_of: Callable[[FieldsType], Iterable[Fault]]
) -> tuple[FieldsType | None, list[Problem]]:
    """Return the configuration in a document, and its problems; None if it cannot be completed."""
    if oversized := list(document.oversized(_MOST_ENTRIES)):
        return None, oversized
    settings, faults = _converted({} if document.data is None else document.data, kind)
    doubtful = [fault.location for fault in faults]
    others = [fault for fault in (faults_of(settings) if settings else ()) if not fault.rests_on(doubtful)]
    return settings, [
        document.problem(fault.location, fault.message, hint=fault.hint, at_key=fault.at_key)
        for fault in (*faults, *others)
    ]


def _converted(data: object, kind: type[FieldsType]) -> tuple[FieldsType | None, Sequence[Fault]]:
    """Return the configuration without values of wrong types, and the faults; None if it cannot be completed."""
    try:
        return convert(data, kind), ()
    except FieldsError as error:
        first = str(error)
    # This import is slow, and only a faulty file needs it.
    from packager.modelspec.validation import SchemaFault, completed, validate  # noqa: PLC0415

    faults = validate(data, schema(kind)) or [SchemaFault((), first)]
    try:
        return convert(completed(data, faults), kind), faults
    except FieldsError:
        return None, faults
