"""Converts a configuration to its type, and explains every fault of a faulty one.

Tests: site/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from packager.base.problems import Fault
from packager.base.values import Fields, FieldsError, convert, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packager.base.problems import Problem
    from packager.base.yamlio import Document

FieldsType = TypeVar("FieldsType", bound=Fields)

_MOST_ENTRIES = 2_000
"""The most entries of a list or mapping in a configuration."""


def read(
    document: Document, kind: type[FieldsType], faults_of: Callable[[FieldsType], Iterable[Fault]]
) -> tuple[FieldsType | None, list[Problem]]:
    """Return the configuration in a document, and its problems; None if a field has another type."""
    if oversized := list(document.oversized(_MOST_ENTRIES)):
        return None, oversized
    settings, faults = typed({} if document.data is None else document.data, kind)
    return settings, [document.problem_of(fault) for fault in (*faults, *(faults_of(settings) if settings else ()))]


def typed(
    data: Any, kind: type[FieldsType], rules: Callable[[], dict[str, Any]] | None = None
) -> tuple[FieldsType | None, list[Fault]]:
    """Return a value of a type; None, with every fault of the types of its fields, if it is not one.

    `rules` returns the JSON Schema of the type, unless it is the one of msgspec.
    """
    try:
        return convert(data, kind), []
    except FieldsError as error:
        first = str(error)
    # Costs a slow import (60 ms), which only a wrong file pays for.
    from packager.modelspec.validation import validate  # noqa: PLC0415

    return None, validate(data, rules() if rules else schema(kind)) or [Fault((), first)]
