"""Defines the base types of immutable values, and converts dicts and lists to them with msgspec.

What a build imports is made of `Value`: a dataclass takes half a millisecond to define, since Python compiles its
methods anew in each process, and a build would define thirty of them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

Meta = msgspec.Meta
"""What is said of a field beside its type: its form, its limits, its description."""

field = msgspec.field
replace = msgspec.structs.replace


class Value(msgspec.Struct, frozen=True):
    """A value: its fields are given by position or name, and stay as they are."""


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of a spec has in common: frozen, keys by name only, unknown keys refused."""


FieldsType = TypeVar("FieldsType", bound=Fields)


class FieldsError(ValueError):
    """Values are not what the field types ask for."""


def convert(values: Any, kind: type[FieldsType]) -> FieldsType:
    """Return `values`, dicts and lists, as what a spec is made of. Raises FieldsError at the first wrong one."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise FieldsError(str(error)) from None


def as_plain(fields: Fields) -> Any:
    """Return a part of a spec as dicts and lists."""
    return msgspec.to_builtins(fields)


def schema(kind: type[Fields]) -> dict[str, Any]:
    """Return the JSON Schema of a type, as msgspec makes it."""
    return msgspec.json.schema(kind)
