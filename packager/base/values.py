"""Defines the base types of immutable values, and converts dicts and lists to them with msgspec.

What a build imports is made of `Value`: a dataclass takes half a millisecond to define, since Python compiles its
methods again in each process, and a build would define thirty of them.

Tests: modelspec/test_load.py.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec

Meta = msgspec.Meta
"""The metadata of a field: its form, its limits and its description."""

field = msgspec.field

UNSET = msgspec.UNSET
UnsetType = msgspec.UnsetType
"""The type of UNSET, the value of a field that is left out of JSON."""
replace = msgspec.structs.replace


Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
"""A value of JSON or YAML from others."""


class Value(msgspec.Struct, frozen=True):
    """An immutable value whose fields are passed by position or by name."""


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every part of a spec: frozen, fields by name only, unknown keys refused.

    The modules that define the parts do not postpone annotations: msgspec compiles each postponed annotation when the
    first spec is read, which takes a twentieth of a small build.
    """


Result = TypeVar("Result")
FieldsType = TypeVar("FieldsType", bound=Fields)


class FieldsError(ValueError):
    """A value does not have the type of its field."""


def convert(values: object, kind: type[FieldsType]) -> FieldsType:
    """Convert dicts and lists to a part of a spec. Raises FieldsError at the first wrong value."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise FieldsError(str(error)) from None


def from_json(text: str | bytes, kind: type[Result]) -> Result:
    """Return the value of a type in a JSON text; keys that the type lacks are skipped. Raises FieldsError."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FieldsError(str(error)) from None


as_dict = msgspec.structs.asdict
"""Returns the fields of a value by their names, each as it is."""

as_plain = msgspec.to_builtins
"""Returns a value as dicts and lists, all of them new."""

schema = msgspec.json.schema
"""Returns the JSON Schema of a type, as msgspec makes it."""


def indented(text: bytes) -> bytes:
    """Return a JSON text with a line for each value; `json` would write it so in Python, ten times slower."""
    return msgspec.json.format(text, indent=2)
