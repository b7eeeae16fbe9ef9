"""Converts a configuration to its type, and explains every fault of a faulty one.

Tests: site/test_read.py.
"""

from __future__ import annotations

import functools
import operator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

from packager.base.problems import Fault
from packager.base.values import Fields, FieldsError, convert, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packager.base.problems import Problem
    from packager.base.yamlio import Document, Location

FieldsType = TypeVar("FieldsType", bound=Fields)

_MOST_ENTRIES = 2_000
"""The most entries of a list or mapping in a configuration."""


def read(
    document: Document, kind: type[FieldsType], faults_of: Callable[[FieldsType], Iterable[Fault]]
) -> tuple[FieldsType | None, list[Problem]]:
    """Return the configuration in a document, and its problems; None if it cannot be completed."""
    if oversized := list(document.oversized(_MOST_ENTRIES)):
        return None, oversized
    settings, faults, wrong = completed({} if document.data is None else document.data, kind)
    others = (fault for fault in (faults_of(settings) if settings else ()) if not fault.rests_on(wrong))
    return settings, [document.problem_of(fault) for fault in (*faults, *others)]


def completed(
    data: Any, kind: type[FieldsType], rules: Callable[[], dict[str, Any]] | None = None
) -> tuple[FieldsType | None, list[Fault], list[Location]]:
    """Return a value of a type, every fault of the types of its fields, and the locations of wrong values.

    It has placeholders there, so that the rest can be checked in the same run; None if no placeholders fit. `rules`
    returns the JSON Schema of the type, unless it is the one of msgspec.
    """
    try:
        return convert(data, kind), [], []
    except FieldsError as error:
        first = str(error)
    # Costs a slow import (60 ms), which only a wrong file pays for.
    from packager.modelspec.validation import validate  # noqa: PLC0415

    of_kind = rules() if rules else schema(kind)
    faults = validate(data, of_kind) or [Fault((), first)]
    remaining = faults
    wrong: list[Location] = []
    for _ in range(3):  # a placeholder may not fit its neighbours: a kind with another kind's keys
        wrong += [fault.location for fault in remaining]
        data = _with_placeholders(data, remaining, of_kind)
        try:
            return convert(data, kind), faults, wrong
        except FieldsError:
            remaining = validate(data, of_kind)
    return None, faults, wrong


def _with_placeholders(data: Any, faults: Iterable[Fault], schema_of_data: dict[str, Any]) -> Any:
    """Return a copy of `data` with an example of a right value for each wrong one, or without its key.

    None if there is no example for an item of a list: without it, the locations of those behind it would change.
    """
    from packager.modelspec.schema import example, rules_at  # noqa: PLC0415 - as above

    copy = deepcopy(data)
    for fault in faults:
        location, rules = fault.location, [] if fault.at_key else rules_at(fault.location, schema_of_data)
        examples = [example(rule, schema_of_data) for rule in rules]
        placeholder = next((value for value in examples if value is not ...), ...)
        if not location or (placeholder is ... and isinstance(location[-1], int)):
            return None
        try:
            holder: Any = functools.reduce(operator.getitem, location[:-1], copy)
            holder[location[-1]] = placeholder
            if placeholder is ...:
                del holder[location[-1]]
        except (LookupError, TypeError):  # the value has been replaced for a fault around it
            continue
    return copy
