"""Validates a document against its schema, and reports violations with places. Tests: modelspec/test_load.py."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.base.yamlio import scalar
from packager.modelspec.schema import Rule, json_schema, resolve, rules_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location

_NOUNS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a mapping",
}

_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} item",
    "minProperties": "at least {} key",
    "maxItems": "at most {} items",
    "maxProperties": "at most {} keys",
    "maxLength": "at most {} characters",
}

# To JSON Schema 2.0 is an integer; to msgspec, which makes the spec, it is not.
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


class SchemaFault(Fault, frozen=True):
    """A violation of the schema by one value."""

    stand_in: Any = ...  # a valid value to go on with in its place (`...`: none, drop the key)


def validate(data: Any, schema: Rule | None = None) -> list[SchemaFault]:
    """Return every violation of a schema in `data`; without one, of a spec's."""
    schema = json_schema() if schema is None else schema
    unique: dict[tuple[Location, str], SchemaFault] = {}
    for error in _Validator(schema).iter_errors(data):
        for fault in _explain(error, schema):
            unique.setdefault((fault.location, fault.message), fault)
    return list(unique.values())


def form(location: Location, schema: Rule) -> str | None:
    """Return the form of the value at `location`, in words that follow "expected"; None for an unknown field."""
    rules = [rule for rule in rules_at(location, schema) if rule.get("type") != "null"]
    forms = [rule["title"] if "title" in rule and _is_scalar(rule) else _kind_of_value(rule) for rule in rules]
    return _either(list(dict.fromkeys(forms))) if forms else None


def completed(data: Any, faults: list[SchemaFault]) -> Any:
    """Return a copy of `data` with a placeholder at each fault; None if a fault has no placeholder.

    The copy is as valid as its placeholders are, so that the other values can be checked.
    """
    copy = deepcopy(data)
    for fault in faults:
        holder: Any = copy
        for step in fault.location[:-1]:
            holder = _item(holder, step)
        if not fault.location:
            return None
        last = fault.location[-1]
        if isinstance(holder, dict) and fault.stand_in is ...:
            holder.pop(last, None)
        elif isinstance(holder, dict):
            holder[last] = deepcopy(fault.stand_in)
        elif isinstance(holder, list) and isinstance(last, int):
            if fault.stand_in is ...:
                return None  # without this item the places of those behind it would change
            holder[last] = deepcopy(fault.stand_in)
    return copy


def _item(holder: Any, step: str | int) -> Any:
    """Return the value at `step`; None if it has already been removed, for a fault above it."""
    if isinstance(holder, dict):
        return holder.get(step)
    return holder[step] if isinstance(holder, list) and isinstance(step, int) and step < len(holder) else None


def _explain(error: ValidationError, schema: Rule) -> Iterator[SchemaFault]:
    location: Location = tuple(error.absolute_path)
    if "propertyNames" in list(error.relative_schema_path)[-2:-1]:
        message = f"expected {_expected(error)}, found the key {show(error.instance)}"
        yield SchemaFault((*location, str(error.instance)), message, at_key=True)
    elif error.validator == "additionalProperties":
        yield from _unknown_keys(error, location)
    elif error.validator == "required":
        yield from _missing_keys(error, location, schema)
    elif error.validator == "anyOf":
        yield from _explain_union(error, schema)
    else:
        message = f"expected {_expected(error)}, found {_shown_value(error)}"
        yield SchemaFault(location, message, _fix(error), stand_in=_example(_rule(error), schema))


def _unknown_keys(error: ValidationError, location: Location) -> Iterator[SchemaFault]:
    keys = list(_rule(error)["properties"])
    for key in _mapping(error):
        if key not in keys:
            hint = similar(key, keys) or f"the valid keys are: {', '.join(keys)}"
            yield SchemaFault((*location, key), f"unknown key {show(key)}", hint, at_key=True)


def _missing_keys(error: ValidationError, location: Location, schema: Rule) -> Iterator[SchemaFault]:
    for key in _rule(error)["required"]:
        if key not in _mapping(error):
            rule = resolve(_rule(error)["properties"][key], schema)
            what = _either(rule["enum"]) if "enum" in rule else _phrase(rule.get("description") or rule["title"])
            yield SchemaFault((*location, key), f"the key {key!r} is missing", what, stand_in=_example(rule, schema))


def _explain_union(error: ValidationError, schema: Rule) -> Iterator[SchemaFault]:
    """Explain `anyOf` by the only branch that fits; otherwise list the expected form of each branch."""
    rules = [resolve(rule, schema) for rule in _rule(error)["anyOf"]]
    branches: list[list[ValidationError]] = [[] for _ in rules]
    for inner in error.context or ():
        branches[int(inner.relative_schema_path[0])].append(inner)
    real = [index for index, rule in enumerate(rules) if rule.get("type") != "null"]
    candidates = real if len(real) == 1 else [index for index in real if not _of_another_type(branches[index])]
    # Where both a word and a number are allowed, neither alone describes the expected value.
    is_of_words = _is_scalar_value(error.instance) and len(real) > 1 and any("enum" in rules[index] for index in real)
    if candidates and not is_of_words:
        for inner in branches[candidates[0]]:
            yield from _explain(inner, schema)
        return
    forms = [_kind_of_value(rules[index]) for index in real]
    if "a number" in forms:
        forms = [word for word in forms if word != "a whole number"]
    stand_in = next((example for rule in rules if (example := _example(rule, schema)) is not ...), ...)
    message = f"expected {_either(list(dict.fromkeys(forms)))}, found {_shown_value(error)}"
    hint = next((hint for branch in branches for inner in branch if (hint := _fix(inner))), None)
    if error.instance is None and "one line of text" in forms:
        hint = 'write "" for an empty text'
    yield SchemaFault(tuple(error.absolute_path), message, hint, stand_in=stand_in)


def _kind_of_value(rule: Rule) -> str:
    """Return a few words for the values that `rule` accepts."""
    if "enum" in rule:
        return _either([f"'{value}'" for value in rule["enum"]])
    noun = (rule.get("title") if _is_scalar(rule) else None) or _NOUNS[rule["type"]]
    if "maxLength" in rule and noun == _NOUNS["string"]:
        return f"{noun} of {_LIMITS['maxLength'].format(rule['maxLength'])}"
    return f"{noun} from {rule['minimum']} to {rule['maximum']}" if {"minimum", "maximum"} <= rule.keys() else noun


def _is_scalar_value(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _of_another_type(branch: list[ValidationError]) -> bool:
    return any(
        error.validator == "type" or (error.validator == "enum" and not _is_scalar_value(error.instance))
        for error in branch
        if not error.relative_path
    )


def _is_scalar(rule: Rule) -> bool:
    return rule.get("type") not in ("object", "array")


def _expected(error: ValidationError) -> str:
    rule = _rule(error)
    if error.validator in _LIMITS:
        plural = "s" if error.validator == "minItems" and error.validator_value != 1 else ""
        return _LIMITS[error.validator].format(error.validator_value) + plural
    if error.validator == "enum":
        return _either([str(value) for value in rule["enum"]])
    return str(rule["title"] if _is_scalar(rule) and "title" in rule else _NOUNS[rule["type"]])


def _shown_value(error: ValidationError) -> str:
    if error.validator == "minItems" and isinstance(error.instance, list) and error.instance:
        return str(len(error.instance))
    path = tuple(error.absolute_path)
    if path[:1] == ("secrets",) and len(path) == 2 and isinstance(error.instance, str | int | float):
        return "a value, which would be in the package"
    return str(len(str(error.instance))) if error.validator == "maxLength" else show(error.instance)


def _fix(error: ValidationError) -> str | None:
    value = error.instance
    if error.validator == "enum" and isinstance(value, str):
        return similar(value, _rule(error)["enum"])
    if error.validator == "type" and error.validator_value == "string" and isinstance(value, int | float):
        written = str(value).lower() if isinstance(value, bool) else str(value)
        return f'quote it: "{written}"' if Draft202012Validator(_rule(error)).is_valid(written) else None
    if error.validator == "type" and error.validator_value == "integer" and isinstance(value, str):
        return _integer_fix(value)
    return None


def _integer_fix(text: str) -> str | None:
    """Return the fix of a text where an integer is expected; None if it does not consist of digits."""
    if not (text.isascii() and text.isdecimal()):
        return None
    if text != "0" and text.startswith("0"):
        return "remove the leading zero"
    return "write it without quotes" if isinstance(scalar(text), int) else "it is too large"


def _example(rule: Rule, schema: Rule) -> Any:
    """Return a value that `rule` accepts; `...` when it has none."""
    rule = resolve(rule, schema)
    if rule.get("examples"):
        return rule["examples"][0]
    if "enum" in rule:
        return rule["enum"][0]
    if rule.get("type") == "object" and rule.get("required"):
        return {key: _example(rule["properties"][key], schema) for key in rule["required"]}
    return ...


def _rule(error: ValidationError) -> Rule:
    rule: Any = error.schema
    assert isinstance(rule, dict)
    return rule


def _mapping(error: ValidationError) -> dict[str, Any]:
    assert isinstance(error.instance, dict)
    return error.instance


def _either(forms: list[str]) -> str:
    return forms[0] if len(forms) == 1 else f"{', '.join(forms[:-1])} or {forms[-1]}"


def _phrase(sentence: str) -> str:
    """Return a description as part of another sentence."""
    return sentence[0].lower() + sentence[1:].rstrip(".")
