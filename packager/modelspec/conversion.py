"""Converts a configuration to its type, and explains every fault of a faulty one. Tests: site/test_read.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from packager.base.values import Fields, FieldsError, convert, schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.faults import Fault

FieldsType = TypeVar("FieldsType", bound=Fields)


def converted(data: object, kind: type[FieldsType]) -> tuple[FieldsType | None, Sequence[Fault]]:
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
