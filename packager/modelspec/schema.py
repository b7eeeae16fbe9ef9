"""Makes the JSON Schema of a spec from its types."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from packager.base.values import schema as schema_of
from packager.modelspec.model import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location

Rule = dict[str, Any]
"""A schema, or a part of one."""


@cache
def json_schema() -> Rule:
    """Return the JSON Schema (2020-12) of a spec.

    msgspec writes a tagged union as `anyOf` plus OpenAPI's `discriminator`, which JSON Schema ignores, so that a
    wrong key in one kind would be reported as "not valid under any". It becomes `if kind then …` here.

    It is made once, and not to be changed.
    """
    schema = _plain_unions(schema_of(Spec))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mlpack model spec", **schema}


def resolve(rule: Rule, schema: Rule) -> Rule:
    """Return `rule` with the content of its `$ref` into `schema`."""
    if "$ref" not in rule:
        return rule
    return {**schema["$defs"][rule["$ref"].rpartition("/")[2]], **rule}


def accepts(location: Location, value: float | None) -> bool:
    """Whether the field at `location` can be a number, a boolean or null as `value` is; true for no field at all."""
    rules = rules_at(location, json_schema())
    names = {bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, type(None): {"null"}}[type(value)]
    return not rules or any(rule.get("type") in names for rule in rules)


def rules_at(location: Location, schema: Rule) -> list[Rule]:
    """Return the rules of the field at `location`: one, or each branch of its union; none for an unknown field."""
    rules = list(_alternatives(schema, schema))
    for step in location:
        rules = [inner for rule in rules for inner in _below(rule, step, schema)]
    return rules


def example(rule: Rule, schema: Rule) -> Any:
    """Return a value that `rule` accepts; `...` if it names none."""
    rule = resolve(rule, schema)
    if found := rule.get("examples") or rule.get("enum"):
        return found[0]
    if rule.get("type") == "object" and rule.get("required"):
        return {key: example(rule["properties"][key], schema) for key in rule["required"]}
    return ...


def _plain_unions(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain_unions(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "discriminator" in node:
        choices = node["discriminator"]["mapping"]
        tag = node["discriminator"]["propertyName"]
        rest = {key: value for key, value in node.items() if key not in ("discriminator", "anyOf")}
        return {
            **rest,
            "type": "object",
            "properties": {tag: {"enum": list(choices)}},
            "required": [tag],
            "allOf": [
                {"if": {"properties": {tag: {"const": name}}, "required": [tag]}, "then": {"$ref": reference}}
                for name, reference in choices.items()
            ],
        }
    return {key: _plain_unions(value) for key, value in node.items()}


def _alternatives(rule: Rule, schema: Rule) -> Iterator[Rule]:
    """Yield the rules that `rule` allows: itself, or each branch of its union."""
    rule = resolve(rule, schema)
    branches = [*rule.get("anyOf", ()), *(branch["then"] for branch in rule.get("allOf", ()))]
    for branch in branches:
        yield from _alternatives(branch, schema)
    if not branches:
        yield rule


def _below(rule: Rule, step: str | int, schema: Rule) -> Iterator[Rule]:
    inner = rule.get("properties", {}).get(str(step)) or rule.get("additionalProperties") or rule.get("items")
    if inner:
        yield from _alternatives(inner, schema)
