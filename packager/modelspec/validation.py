"""Validates a document against its schema, and reports violations with places. Tests: modelspec/test_load.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from packager.base.problems import Fault, show, similar, without_repetitions
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


Violation = Any
"""A ValidationError of jsonschema, whose own types are too wide."""


def validate(data: Any, schema: Rule | None = None) -> list[Fault]:
    """Return every violation of a schema in `data`; without one, of a spec's."""
    schema = json_schema() if schema is None else schema
    return without_repetitions(
        fault for error in _Validator(schema).iter_errors(data) for fault in _explain(error, schema)
    )


def form(location: Location, schema: Rule) -> str | None:
    """Return the form of the value at `location`, in words that follow "expected"; None for an unknown field."""
    rules = [rule for rule in rules_at(location, schema) if rule.get("type") != "null"]
    forms = [rule["title"] if "title" in rule and _is_scalar(rule) else _kind_of_value(rule) for rule in rules]
    return _either(list(dict.fromkeys(forms))) if forms else None


def _explain(error: Violation, schema: Rule) -> Iterator[Fault]:
    location: Location = tuple(error.absolute_path)
    properties = error.schema.get("properties", {})
    if "propertyNames" in list(error.relative_schema_path)[-2:-1]:
        message = f"expected {_expected(error)}, found the key {show(error.instance)}"
        yield Fault((*location, str(error.instance)), message, at_key=True)
    elif error.validator == "additionalProperties":
        for key in [key for key in error.instance if key not in properties]:
            hint = similar(key, properties) or f"the valid keys are: {', '.join(properties)}"
            yield Fault((*location, key), f"unknown key {show(key)}", hint, at_key=True)
    elif error.validator == "required":
        for key in [key for key in error.schema["required"] if key not in error.instance]:
            rule = resolve(properties[key], schema)
            sentence = rule.get("description") or rule.get("title") or key
            what = _either(rule["enum"]) if "enum" in rule else sentence[0].lower() + sentence[1:].rstrip(".")
            yield Fault((*location, key), f"the key {key!r} is missing", what)
    elif error.validator == "anyOf":
        yield from _explain_union(error, schema)
    else:
        message = f"expected {_expected(error)}, found {_shown_value(error)}"
        yield Fault(location, message, _fix(error))


def _explain_union(error: Violation, schema: Rule) -> Iterator[Fault]:
    """Explain `anyOf` by the only branch that fits; otherwise list the expected form of each branch."""
    rules = [resolve(rule, schema) for rule in error.schema["anyOf"]]
    branches: list[list[Violation]] = [[] for _ in rules]
    for inner in error.context or ():
        branches[int(inner.relative_schema_path[0])].append(inner)
    real = [index for index, rule in enumerate(rules) if rule.get("type") != "null"]
    candidates = real if len(real) == 1 else [index for index in real if not _of_another_type(branches[index])]
    # Where both a word and a number are allowed, neither alone describes the expected value.
    is_scalar = not isinstance(error.instance, dict | list)
    is_of_words = is_scalar and len(real) > 1 and any("enum" in rules[index] for index in real)
    if candidates and not is_of_words:
        for inner in branches[candidates[0]]:
            yield from _explain(inner, schema)
        return
    forms = [_kind_of_value(rules[index]) for index in real]
    if "a number" in forms:
        forms = [word for word in forms if word != "a whole number"]
    message = f"expected {_either(list(dict.fromkeys(forms)))}, found {_shown_value(error)}"
    hint = next((hint for branch in branches for inner in branch if (hint := _fix(inner))), None)
    yield Fault(tuple(error.absolute_path), message, hint)


def _kind_of_value(rule: Rule) -> str:
    """Return a few words for the values that `rule` accepts."""
    if "enum" in rule:
        return _either([f"'{value}'" for value in rule["enum"]])
    noun = (rule.get("title") if _is_scalar(rule) else None) or _NOUNS[rule["type"]]
    if "maxLength" in rule and noun == _NOUNS["string"]:
        return f"{noun} of {_LIMITS['maxLength'].format(rule['maxLength'])}"
    return f"{noun} from {rule['minimum']} to {rule['maximum']}" if {"minimum", "maximum"} <= rule.keys() else noun


def _of_another_type(branch: list[Violation]) -> bool:
    return any(
        error.validator == "type" or (error.validator == "enum" and isinstance(error.instance, dict | list))
        for error in branch
        if not error.relative_path
    )


def _is_scalar(rule: Rule) -> bool:
    return rule.get("type") not in ("object", "array")


def _expected(error: Violation) -> str:
    rule = error.schema
    if error.validator in _LIMITS:
        plural = "s" if error.validator == "minItems" and error.validator_value != 1 else ""
        return _LIMITS[error.validator].format(error.validator_value) + plural
    if error.validator == "enum":
        return _either([str(value) for value in rule["enum"]])
    return str(rule["title"] if _is_scalar(rule) and "title" in rule else _NOUNS[rule["type"]])


def _shown_value(error: Violation) -> str:
    if error.validator == "minItems" and isinstance(error.instance, list) and error.instance:
        return str(len(error.instance))
    path = tuple(error.absolute_path)
    if path[:1] == ("secrets",) and len(path) == 2 and isinstance(error.instance, str | int | float):
        return "a value, which would be in the package"
    return str(len(str(error.instance))) if error.validator == "maxLength" else show(error.instance)


def _fix(error: Violation) -> str | None:
    value = error.instance
    if error.validator == "enum" and isinstance(value, str):
        return similar(value, error.schema["enum"])
    if error.validator == "type" and error.validator_value == "string" and isinstance(value, int | float):
        written = str(value).lower() if isinstance(value, bool) else str(value)
        return f'quote it: "{written}"' if Draft202012Validator(error.schema).is_valid(written) else None
    # Digits where a whole number is expected, unless they would be text without quotes as well.
    is_number = error.validator == "type" and error.validator_value == "integer" and isinstance(value, str)
    return "write it without quotes" if is_number and type(scalar(value)) is int else None


def _either(forms: list[str]) -> str:
    return forms[0] if len(forms) == 1 else f"{', '.join(forms[:-1])} or {forms[-1]}"
