"""Checks manifests against the schemas of Kubernetes and the operators: unknown, missing or mistyped fields.

Only names and types are checked here; other modules check the values. The schemas of Kubernetes' own kinds, and of
kinds without a folder in `packager.workloads`, are in `schemas/`; the schema of another kind is in its folder.
`python -m tools.schemas` makes all schemas, and describes their format.

Tests: verify/test_manifests.py.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.problems import Fault, show, similar
from packager.base.values import replace
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location

_SCHEMAS = Path(__file__).resolve().parent / "schemas"
_FIELD = re.compile(r"([^@]+)(?:@(1\.\d+)-(1\.\d+)?)?")


def versions() -> tuple[str, ...]:
    """Return the minor versions of Kubernetes that can be checked against, oldest first."""
    return tuple(_read(_SCHEMAS / "kubernetes.json")["versions"])


def faults(manifest: dict[str, Any], against: Sequence[str]) -> Iterator[Fault]:
    """Yield the faults of `manifest` in any of the versions `against`; none for a kind without a schema."""
    name = kinds().get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
    if name is None:
        return
    versions_by_fault: dict[Fault, list[str]] = {}
    checker = None
    for version in against:
        if checker is None or checker.differs_in(minor_of(version)):
            checker = _Checker(minor_of(version))
            checker.check(manifest, name, ())
        for fault in checker.faults:
            versions_by_fault.setdefault(fault, []).append(version)
    for fault, faulty in versions_by_fault.items():
        span = " to ".join(dict.fromkeys((faulty[0], faulty[-1])))
        yield (
            fault if len(faulty) == len(against) else replace(fault, message=f"{fault.message} (in Kubernetes {span})")
        )


def unknown_step(api: str, kind: str, path: str) -> tuple[str, str | None] | None:
    """Return a message and a hint if the kind does not have the path, such as `spec.volumes[].name`; else None."""
    expression = kinds()[api, kind]
    for step in path.replace("[]", ".[]").split("."):
        if expression == "any":
            return None
        if expression in _types():
            known = {name: _expressions(spans) for name, spans in _types()[expression][0].items()}
            if step not in known:
                return f"{kind} has no field {path!r}: unknown field {step!r}", similar(step, known)
            expression = known[step][-1]
        elif (expression[0], step) in (("[", "[]"), ("{", "*")):
            expression = expression[1:-1]
        else:
            return f"{kind} has no field {path!r}: unknown field {step!r}", None
    return None


def _expressions(spans: str) -> list[str]:
    """Return the types that a field has had in versions of Kubernetes, oldest first."""
    return [match[1] for part in spans.split(" | ") if (match := _FIELD.fullmatch(part))]


class _Checker:
    """Compares a manifest with its schema in one version of Kubernetes."""

    def __init__(self, minor: int) -> None:
        self.faults: list[Fault] = []  # the faults of the manifest
        self._minor = minor
        self._tables: set[str] = set()

    def differs_in(self, minor: int) -> bool:
        """Return whether one of the types that the manifest has differs in Kubernetes 1.`minor`."""
        return any(_in_version(name, minor) != _in_version(name, self._minor) for name in self._tables)

    def check(self, value: Any, expression: str, here: Location) -> None:
        if value is None or expression == "any":
            return  # the API server drops a null
        if expression in _SCALARS:
            noun, types = _SCALARS[expression]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                self._add(here, f"expected {noun}, found {_shown(value)}", _unquote(value, expression))
        elif expression[0] in "[{":
            noun, kind = ("list", list) if expression[0] == "[" else ("mapping", dict)
            if not isinstance(value, kind):
                self._add(here, f"expected a {noun}, found {_shown(value)}")
                return
            for step, element in enumerate(value) if isinstance(value, list) else value.items():
                self.check(element, expression[1:-1], (*here, step))
        else:
            self._table(value, expression, here)

    def _add(self, here: Location, message: str, hint: str | None = None, *, at_key: bool = False) -> None:
        self.faults.append(Fault(here, message, hint, at_key=at_key))

    def _table(self, value: Any, name: str, here: Location) -> None:
        if not isinstance(value, dict):
            self._add(here, f"expected a mapping, found {_shown(value)}")
            return
        self._tables.add(name)
        known, required = _in_version(name, self._minor)
        for key, element in value.items():
            expression = known.get(key)
            if expression is not None:
                self.check(element, expression, (*here, key))
            else:
                hint = None if key in _types()[name][0] else similar(key, known)
                self._add((*here, key), f"unknown field {key!r}", hint, at_key=True)
        for field in required:
            if value.get(field) is None:
                self._add(here, f"the field {field!r} is missing")


_SCALARS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "quantity": ("a quantity", (str, int, float)),
    "int-or-string": ("a whole number or text", (int, str)),
}


def _shown(value: Any) -> str:
    return f"the text {show(value)}" if isinstance(value, str) else show(value)


def _unquote(value: Any, expression: str) -> str | None:
    if isinstance(value, str) and expression in ("integer", "number") and re.fullmatch(r"-?\d+", value):
        return f"write {value} without quotes"
    if isinstance(value, str) and expression == "boolean" and value in ("true", "false"):
        return f"write {value} without quotes"
    if expression == "string" and isinstance(value, int | float):
        return f'quote it: "{str(value).lower() if isinstance(value, bool) else value}"'
    return None


def minor_of(version: str) -> int:
    """Return the minor number of a version such as 1.34."""
    return int(version.partition(".")[2])


@cache
def _in_version(name: str, minor: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the fields that the table `name` has in Kubernetes 1.`minor`, and the required fields."""
    fields, required = _types()[name]
    known = {field: expression for field, spans in fields.items() if (expression := _for_version(spans, minor))}
    return known, tuple(field for spans in required if (field := _for_version(spans, minor)))


def _for_version(spans: str, minor: int) -> str | None:
    if "@" not in spans:
        return spans
    for part in spans.split(" | "):
        match = _FIELD.fullmatch(part)
        assert match, part
        word, since, until = match.groups()
        if (not since or minor_of(since) <= minor) and (not until or minor <= minor_of(until)):
            return str(word)
    return None


@cache
def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


def _schemas() -> Iterator[dict[str, Any]]:
    """Yield every schema."""
    for path in sorted((*_SCHEMAS.glob("*.json"), *(structure.schema for structure in structures().values()))):
        if path.is_file():
            yield _read(path)


@cache
def kinds() -> dict[tuple[str, str], str]:
    """Return the name of the type of each apiVersion and kind that has a schema."""
    all_kinds = {name: type_name for schema in _schemas() for name, type_name in schema["kinds"].items()}
    return {(name.split(" ")[0], name.split(" ")[1]): type_name for name, type_name in all_kinds.items()}


@cache
def _types() -> dict[str, tuple[dict[str, str], tuple[str, ...]]]:
    all_types = {name: table for schema in _schemas() for name, table in schema["types"].items()}
    return {name: (table["fields"], tuple(table.get("required", ()))) for name, table in all_types.items()}
