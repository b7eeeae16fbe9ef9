"""Manifests against the fields that Kubernetes and the operators know: unknown, of the wrong type, missing.

Names and types only: what values mean is the other modules' affair. `schemas/` is made by `python -m tests.schemas`,
which describes its format.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.problems import similar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.yamlio import Location

_SCHEMAS = Path(__file__).resolve().parent / "schemas"
_FIELD = re.compile(r"([^@]+)(?:@(1\.\d+)-(1\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one value, and since which versions of Kubernetes that is so.

    Attributes:
        location: Where it stands in the manifest; for a missing field, its parent.
        message: What was expected and found.
        hint: The fix, where it can be known.
        at_key: Whether the key is meant, not its value.
    """

    location: Location
    message: str
    hint: str | None = None
    at_key: bool = False


def versions() -> tuple[str, ...]:
    """Return the minor versions of Kubernetes that can be checked against, oldest first."""
    return tuple(_read("kubernetes.json")["versions"])


def kinds() -> frozenset[tuple[str, str]]:
    """Return each apiVersion and kind that there is a schema for."""
    return frozenset(_kinds())


def faults(manifest: dict[str, Any], against: Sequence[str]) -> Iterator[Fault]:
    """Yield what is wrong with `manifest` in any of the versions `against`; nothing for a kind without a schema."""
    name = _kinds().get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
    if name is None:
        return
    found: dict[Fault, list[str]] = {}
    for version in against:
        for fault in _Checker(version).check(manifest, name, ()):
            found.setdefault(fault, []).append(version)
    for fault, where in found.items():
        yield fault if len(where) == len(against) else _only(fault, where)


def _only(fault: Fault, where: list[str]) -> Fault:
    span = where[0] if len(where) == 1 else f"{where[0]} to {where[-1]}"
    return Fault(fault.location, f"{fault.message} (in Kubernetes {span})", fault.hint, fault.at_key)


class _Checker:
    """Walks a manifest beside its schema, as one version of Kubernetes has it."""

    def __init__(self, version: str) -> None:
        self._minor = _minor(version)

    def check(self, value: Any, expression: str, here: Location) -> Iterator[Fault]:
        if value is None or expression == "any":
            return  # the API server drops a null
        if expression.startswith("["):
            yield from self._list(value, expression[1:-1], here)
        elif expression.startswith("{"):
            yield from self._mapping(value, expression[1:-1], here)
        elif expression in _SCALARS:
            noun, types = _SCALARS[expression]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                yield Fault(here, f"expected {noun}, found {_quoted(value)}", _unquote(value, expression))
        else:
            yield from self._table(value, expression, here)

    def _list(self, value: Any, item: str, here: Location) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault(here, f"expected a list, found {_quoted(value)}")
            return
        for index, element in enumerate(value):
            yield from self.check(element, item, (*here, index))

    def _mapping(self, value: Any, item: str, here: Location) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault(here, f"expected a mapping, found {_quoted(value)}")
            return
        for key, element in value.items():
            yield from self.check(element, item, (*here, key))

    def _table(self, value: Any, name: str, here: Location) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault(here, f"expected a mapping, found {_quoted(value)}")
            return
        fields, _ = _types()[name]
        known, required = _in_version(name, self._minor)
        for key, element in value.items():
            if key in known:
                yield from self.check(element, known[key], (*here, key))
            elif key in fields:
                yield Fault((*here, key), f"there is no field {key!r} here", at_key=True)
            else:
                yield Fault((*here, key), f"there is no field {key!r} here", similar(key, known), at_key=True)
        for field in required:
            if value.get(field) is None:
                yield Fault(here, f"the field {field!r} is missing")


_SCALARS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "quantity": ("a quantity", (str, int, float)),
    "int-or-string": ("a whole number or text", (int, str)),
}


def _quoted(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
    return f"the number {value}"


def _unquote(value: Any, expression: str) -> str | None:
    if isinstance(value, str) and expression in ("integer", "number") and re.fullmatch(r"-?\d+", value):
        return f"write {value} without quotes"
    if isinstance(value, str) and expression == "boolean" and value in ("true", "false"):
        return f"write {value} without quotes"
    if expression == "string" and isinstance(value, int | float):
        return f'quote it: "{str(value).lower() if isinstance(value, bool) else value}"'
    return None


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


@cache
def _in_version(name: str, minor: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the fields that the table `name` has in Kubernetes 1.`minor`, and those that have to be there."""
    fields, required = _types()[name]
    known = {field: found for field, spans in fields.items() if (found := _pick(spans, minor))}
    return known, tuple(field for spans in required if (field := _pick(spans, minor)))


def _pick(spans: str, minor: int) -> str | None:
    for part in spans.split(" | "):
        match = _FIELD.fullmatch(part)
        assert match, part
        word, since, until = match.groups()
        if (not since or _minor(since) <= minor) and (not until or minor <= _minor(until)):
            return str(word)
    return None


@cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_SCHEMAS / name).read_bytes())
    return content


@cache
def _kinds() -> dict[tuple[str, str], str]:
    every = _read("kubernetes.json")["kinds"] | _read("custom.json")["kinds"]
    return {(name.split(" ")[0], name.split(" ")[1]): type_name for name, type_name in every.items()}


@cache
def _types() -> dict[str, tuple[dict[str, str], tuple[str, ...]]]:
    every = _read("kubernetes.json")["types"] | _read("custom.json")["types"]
    return {name: (table["fields"], tuple(table.get("required", ()))) for name, table in every.items()}
