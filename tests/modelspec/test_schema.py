"""`mlpack schema`: the JSON Schema that editors use is the one that validation uses."""

from __future__ import annotations

import re
import typing
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from packager.modelspec.model import AnyOverlay
from packager.modelspec.schema import json_schema
from tests import demo


def test_schema_is_valid_and_satisfied_by_bundled_specs() -> None:
    Draft202012Validator.check_schema(json_schema())
    for path in (demo.CHECKOUT / "model_specs").glob("*/*spec.yaml"):
        document = yaml.load(path.read_text(), Loader=yaml.SafeLoader)
        assert list(Draft202012Validator(json_schema()).iter_errors(document)) == []


def test_every_key_has_a_description() -> None:
    silent = [path for path, rule in _properties(json_schema()) if not rule.get("description") and "$ref" not in rule]
    assert [path for path in silent if not path.endswith(".kind")] == []


def test_schema_contains_every_kind_of_overlay() -> None:
    kinds = [kind.__name__ for kind in typing.get_args(AnyOverlay)]
    assert set(kinds) <= set(json_schema()["$defs"])
    assert json_schema()["$defs"]["Spec"]["properties"]["overlays"]["additionalProperties"]["properties"] == {
        "kind": {"enum": kinds}
    }


def test_patterns_mean_the_same_in_python_and_ecma_262() -> None:
    """ECMA 262 has neither Python's end of text nor its flags, and Python's `$` allows a newline behind."""
    patterns = [rule["pattern"] for rule in _rules(json_schema()) if "pattern" in rule]
    assert len(patterns) > 5
    for pattern in patterns:
        assert pattern.startswith("^(?:")
        assert pattern.endswith(r")(?![\s\S])")
        assert not re.search(r"\\[AZz]|\(\?[a-zA-Z#<]|\$", pattern)


def test_every_example_satisfies_its_rule() -> None:
    schema = json_schema()
    for rule in _rules(schema):
        for example in rule.get("examples", ()):
            alone = {**rule, "$defs": schema["$defs"]}
            assert list(Draft202012Validator(alone).iter_errors(example)) == []


def _rules(node: Any) -> typing.Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _rules(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _rules(inner)


def _properties(schema: dict[str, Any]) -> typing.Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in schema["$defs"].items():
        for key, rule in definition["properties"].items():
            yield f"{name}.{key}", rule
