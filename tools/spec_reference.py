"""Writes the reference of the spec format, in Markdown, out of the spec's own types: `make docs`.

    python -m tools.spec_reference > docs/spec.md

Types, forms, defaults and what each key is for come from the JSON Schema, which comes from
`packager/modelspec/model.py` and `packager/workloads/`; the example is what `mlpack init` writes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from packager.builder.render import scaffold
from packager.modelspec.schema import json_schema

_INTRODUCTION = """\
# The model spec

<!-- Made by `make docs` out of packager/modelspec/model.py and packager/workloads: edit those. -->

A model is a folder with a `spec.yaml` and the files that it names. `mlpack init NAME` creates one that builds without
changes, `mlpack lint` checks it, and `mlpack build` builds a package from one of its variants (`--all`: from all).
`mlpack schema` prints the JSON Schema, which editors use to complete keys and to mark mistakes.

A folder of models (`--specs`) may have a `groups.yaml`, which says in which groups and order `mlpack list` shows them:
`groups:` with a list of mappings of a `title` and the names of the folders, as `models`. Models that share files are in
one folder: `NAME.spec.yaml` beside `spec.yaml` is the spec of another one.

Unknown keys are refused. Values such as `20`, `-1`, `0.5`, `true` and `false` are read as numbers and booleans. Every
other value is text, exactly as written: `yes`, `1.10`, `0o17`. Paths are relative to the spec's folder and must lead to
files inside it.
"""

_HEAD = ("| key | what it is for | form | default |", "|---|---|---|---|")
_NOUNS = {"string": "text", "number": "a number", "boolean": "`true` or `false`"}

Rule = dict[str, Any]


def reference() -> str:
    """Return the whole document."""
    schema = json_schema()
    sections = [_INTRODUCTION, _example()]
    sections += [_section(name, rule, schema["$defs"]) for name, rule in schema["$defs"].items()]
    return "\n".join(sections)


def _example() -> str:
    spec = next(content for path, content, _ in scaffold("my-model") if path == "spec.yaml")
    return f"## An example\n\n```yaml\n{spec.strip()}\n```\n"


def _section(name: str, rule: Rule, definitions: Rule) -> str:
    lines = [f"## {name}", "", rule["description"], "", *_HEAD]
    for key, value in rule["properties"].items():
        purpose = value.get("description") or definitions.get(_target(value), {}).get("description")
        default = "required" if key in rule.get("required", ()) else _default(value.get("default"))
        lines.append(_row(f"`{key}`", purpose or "The kind.", _form(value), default))
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if value in (None, "", [], {}) or (isinstance(value, dict) and not any(value.values())):
        return "none"
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if item}
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _form(rule: Rule) -> str:
    """Return the description of the form of a value."""
    if "$ref" in rule:
        return f"[{_target(rule)}](#{_target(rule).lower()})"
    if "enum" in rule:
        return _either([f"`{value}`" for value in rule["enum"]])
    if "anyOf" in rule:
        return _either([_form(option) for option in rule["anyOf"] if option.get("type") != "null"])
    if "allOf" in rule:  # a union that one key tells apart
        return _either([_form(branch["then"]) for branch in rule["allOf"]])
    return _typed(rule)


def _typed(rule: Rule) -> str:
    match rule["type"]:
        case "array":
            return f"a list; each item {_form(rule['items'])}"
        case "object":
            key, value = rule["propertyNames"]["title"], _form(rule["additionalProperties"])
            return f"a mapping; each key {key}; each value {value}"
        case "integer":
            return _whole_number(rule.get("minimum"), rule.get("maximum"))
        case other:
            return str(rule.get("title") or _NOUNS[other])


def _target(rule: Rule) -> str:
    """Return the name of the definition that `rule` refers to; empty when to none."""
    return str(rule.get("$ref", "")).rsplit("/", 1)[-1]


def _whole_number(least: int | None, most: int | None) -> str:
    if least is None and most is None:
        return "a whole number"
    return f"a whole number, at least {least}" if most is None else f"a whole number from {least} to {most:,}"


def _either(words: list[str]) -> str:
    distinct = list(dict.fromkeys(words))
    return distinct[0] if len(distinct) == 1 else f"{', '.join(distinct[:-1])} or {distinct[-1]}"


def _row(*cells: str) -> str:
    escaped = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
