"""Parses `user_values_description`, the description of the values that users fill in, and checks filled values.

A leaf is a text such as `(Required) Number of steps` or `(Optional:integer) Batch size`. A mapping is required if it
has a required leaf. A list describes kinds of items: the leaf `type` of a kind is the literal that identifies it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import quantity, yamlio
from packager.base.faults import Fault
from packager.base.problems import Problem, show, similar
from packager.base.values import Value
from packager.service.failures import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.base.values import Json
    from packager.base.yamlio import Document, Location

MAX_BYTES = 64 << 10
"""The maximum size of a description, an example or system values."""

_MAX_DEPTH = 8

SECRET = "secret"  # noqa: S105 - a type
"""The type of a value that no response, log, manifest or template gets: pods read it from the Secret of the job."""

_TYPES = ("string", "integer", "number", "boolean", "quantity", "uri", SECRET)
_LEAF = re.compile(rf"\((Required|Optional)(?:: *({'|'.join(_TYPES)}))?\) *(.*)", re.DOTALL)
_SECRET_KEY = re.compile("[A-Za-z0-9_-]{1,60}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")

EVENTS = ("pending", "running", "succeeded", "failed", "deleted")
"""The statuses that an endpoint of type `event` can request."""

ENDPOINTS = ("endpoints",)
"""The place of the list of endpoints, in which callbacks and headers are looked for."""

ENVELOPE = {
    "taskDef": "name of the task definition",
    "description": "description of the job",
    "name": "name of the application",
    "creator": "who the job is for",
}
"""The keys that filled values may have even if the description lacks them, each with its meaning."""


class Leaf(Value, frozen=True):
    """A value that a user fills in."""

    required: bool  # whether the value must be filled in
    type: str | None  # the type of the value; None for any scalar
    text: str  # the meaning of the value, for people


class FreeMapping(Value, frozen=True):
    """An optional mapping with any keys."""

    required: bool = False


class Group(Value, frozen=True):
    """A mapping with the described keys."""

    entries: tuple[tuple[str, Described], ...]
    required: bool


class Items(Value, frozen=True):
    """A list; each item has one of the described kinds."""

    kinds: tuple[Described, ...]
    required: bool  # whether an item of a kind is required
    # whether this is the list `endpoints` of the job, whose headers are secrets and are sealed
    are_endpoints: bool = False

    def takes_headers(self, kind: Described) -> bool:
        """Whether items of a kind may have headers."""
        return self.are_endpoints and isinstance(kind, Group) and any(key == "endpoint" for key, _ in kind.entries)


Described = Leaf | FreeMapping | Group | Items
"""The description of the value at one place."""


def read(text: str, name: str = "user_values_description") -> tuple[Group | None, list[Problem]]:
    """Return the parsed description, or None and its problems."""
    document, problems = read_mapping(text, name)
    if problems:
        return None, problems
    reader = _DescriptionReader(document)
    root = reader.group((), document.data or {})
    return (root, []) if not reader.problems else (None, reader.problems)


def read_mapping(text: str, name: str) -> tuple[Document, list[Problem]]:
    """Return a text, parsed as a YAML mapping, and its problems; an empty text is an empty mapping."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        return _empty(name), [Problem(name, 1, 1, f"expected at most {MAX_BYTES >> 10} KiB")]
    try:
        document, problems = yamlio.load(text.encode(), name)
    except UnicodeEncodeError:
        return _empty(name), [Problem(name, 1, 1, "expected text, found an unpaired surrogate (\\ud800 to \\udfff)")]
    if not problems and not isinstance(document.data, dict | None):
        problems = [document.problem((), f"expected a mapping, found {show(document.data)}")]
    return document, problems


def _empty(name: str) -> Document:
    return yamlio.load(b"", name)[0]


class _DescriptionReader:
    """Parses a document with a description, and collects the problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def group(self, here: Location, value: Mapping[str, Json]) -> Group:
        entries = tuple((key, self._described((*here, key), item)) for key, item in value.items())
        return Group(entries, any(entry.required for _, entry in entries))

    def _described(self, here: Location, value: Json) -> Described:
        if len(here) > _MAX_DEPTH:
            self._add(here, f"is nested more than {_MAX_DEPTH} levels deep")
            return FreeMapping()
        if value is None or value == {}:
            return FreeMapping()
        if isinstance(value, dict):
            return self.group(here, value)
        if isinstance(value, list):
            return self._items(here, value)
        return self._leaf(here, value)

    def _items(self, here: Location, value: list[Json]) -> Described:
        kinds = tuple(self._described((*here, index), item) for index, item in enumerate(value))
        if not kinds:
            self._add(here, "expected at least one kind of item")
        literals = [literal for kind in kinds if (literal := _literal(kind))]
        for literal in {literal for literal in literals if literals.count(literal) > 1}:
            self._add(here, f"two kinds of items have the type {literal!r}")
        if len(kinds) > 1 and len(literals) < len(kinds):
            self._add(here, "several kinds of items need a key 'type' each, by which they are known")
        return Items(kinds, any(kind.required for kind in kinds), are_endpoints=here == ENDPOINTS)

    def _leaf(self, here: Location, value: Json) -> Described:
        match = _LEAF.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self._add(here, f"expected a text that begins with (Required) or (Optional), found {show(value)}", _HINT)
            return FreeMapping()
        if match[2] == SECRET and not all(isinstance(step, str) and _SECRET_KEY.fullmatch(step) for step in here):
            self._add(here, "a secret has keys of letters, digits, - and _ above it, and is in no list")
        return Leaf(match[1] == "Required", match[2], " ".join(match[3].split()))

    def _add(self, here: Location, message: str, hint: str | None = None) -> None:
        self.problems.append(self._document.problem(here, message, hint=hint))


_HINT = f"a type may follow, as in (Required:integer); the types are {', '.join(_TYPES)}"


def faults(description: Group, filled: Mapping[str, Json], *, reserved: Mapping[str, str] | None = None) -> list[Fault]:
    """Return the faults of filled values: at most MOST, and one that counts the others."""
    entries = dict(description.entries)
    for key, text in ENVELOPE.items():
        entries.setdefault(key, Leaf(key == "taskDef", None, text))
    checker = _FilledChecker()
    refused = {key: reason for key, reason in (reserved or {}).items() if key in filled}
    for key, reason in refused.items():
        checker.add((key,), reason, at_key=True)
    rest = {key: value for key, value in filled.items() if key not in refused}
    checker.group((), Group(tuple(entries.items()), required=True), rest)
    return checker.faults


class _FilledChecker:
    """Compares filled values with their description, and collects the faults."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._more = 0

    @property
    def faults(self) -> list[Fault]:
        """The first faults, and one that counts all others."""
        more = [Fault((), "there are more problems", count=self._more)] if self._more else []
        return [*self._faults, *more]

    def add(self, here: Location, message: str, hint: str | None = None, *, at_key: bool = False) -> None:
        if len(self._faults) < MOST:
            self._faults.append(Fault(here, message, hint, at_key=at_key))
        else:
            self._more += 1

    def group(self, here: Location, described: Group, value: Json, also: Mapping[str, Described] | None = None) -> None:
        if not isinstance(value, dict):
            self.add(here, f"expected a mapping, found {show(value)}")
            return
        entries = {**dict(described.entries), **(also or {})}
        for key, item in value.items():
            if key not in entries and len(self._faults) >= MOST:
                self._more += 1  # without a search for similar keys, which is slow
            elif key not in entries:
                known = similar(key, entries) or (f"the keys are: {', '.join(entries)}" if entries else None)
                self.add((*here, key), f"unknown key {show(key)}", known, at_key=True)
            elif item is None and entries[key].required:
                self._missing((*here, key), entries[key])
            elif item is not None:
                self._check((*here, key), entries[key], item)
        for key, entry in entries.items():
            if entry.required and key not in value:
                self._missing((*here, key), entry)

    def _missing(self, here: Location, described: Described) -> None:
        """Report each missing leaf, also those in a missing mapping."""
        if isinstance(described, Group):
            for key, entry in described.entries:
                if entry.required:
                    self._missing((*here, key), entry)
        elif isinstance(described, Items):
            self._items(here, described, [])
        else:
            self.add(here, f"is missing: {described.text}" if isinstance(described, Leaf) else "is missing")

    def _check(self, here: Location, described: Described, value: Json) -> None:
        if isinstance(described, FreeMapping):
            if not isinstance(value, dict):
                self.add(here, f"expected a mapping, found {show(value)}")
        elif isinstance(described, Group):
            self.group(here, described, value)
        elif isinstance(described, Items):
            self._items(here, described, value)
        else:
            self._scalar(here, described, value)

    def _items(self, here: Location, described: Items, value: Json) -> None:
        if not isinstance(value, list):
            self.add(here, f"expected a list, found {show(value)}")
            return
        seen: set[int] = set()
        numbers = _numbers(described)
        for index, item in enumerate(value):
            number = self._kind((*here, index), numbers, item)
            if number is not None:
                seen.add(number)
                self._item((*here, index), described, described.kinds[number], item)
        for number, kind in enumerate(described.kinds):
            if kind.required and number not in seen:
                literal = _literal(kind)
                self.add(here, f"needs an item of type {literal!r}" if literal else "needs an item")

    def _kind(self, here: Location, numbers: Mapping[str | None, int], item: Json) -> int | None:
        """Return the index of an item's kind; report an item without a kind, and return None."""
        number = _number_of(numbers, item)
        if number is not None:
            return number
        given = item.get("type") if isinstance(item, dict) else None
        if len(self._faults) >= MOST:
            self._more += 1  # without a message, which is long if there are many kinds
        elif isinstance(item, dict):
            hint = similar(given, filter(None, numbers)) if isinstance(given, str) else None
            self.add((*here, "type"), f"expected {' or '.join(map(str, numbers))}, found {show(given)}", hint)
        else:
            self.add(here, f"expected a mapping, found {show(item)}")
        return None

    def _item(self, here: Location, items: Items, kind: Described, item: Json) -> None:
        if not isinstance(kind, Group):
            self._check(here, kind, item)
            return
        has_headers = items.takes_headers(kind)
        literal = _literal(kind)
        entries = tuple((key, entry) for key, entry in kind.entries if key != "type" or literal is None)
        also: dict[str, Described] = {"headers": FreeMapping()} if has_headers else {}
        if isinstance(item, dict):
            checked = {"type"} if literal else set()
            if literal and "type" not in item and any(key == "type" and e.required for key, e in kind.entries):
                self.add((*here, "type"), f"is missing: {literal}")
            if literal == "event" and has_headers and "events" in item:
                self._events((*here, "events"), item["events"])
                checked.add("events")
            rest: Json = {key: value for key, value in item.items() if key not in checked}
        else:
            rest = item
        self.group(here, Group(entries, kind.required), rest, also)
        headers = item.get("headers") if isinstance(item, dict) and has_headers else None
        for key, value in headers.items() if isinstance(headers, dict) else ():
            if not isinstance(value, str):
                self.add((*here, "headers", key), f"expected text, found {show(value)}")

    def _events(self, here: Location, value: Json) -> None:
        if not isinstance(value, list) or not value:
            self.add(here, f"expected a list of {', '.join(EVENTS)}, found {show(value)}")
            return
        for index, word in enumerate(value):
            if word not in EVENTS or word in value[:index]:
                hint = similar(word, EVENTS) if isinstance(word, str) and word not in EVENTS else None
                self.add((*here, index), f"expected one of {', '.join(EVENTS)}, each once, found {show(word)}", hint)

    def _scalar(self, here: Location, described: Leaf, value: Json) -> None:
        if described.type == SECRET and not isinstance(value, str):
            self.add(here, "expected text")  # the found value is not shown
        elif isinstance(value, dict | list) or (described.type and not _ACCEPTS[described.type](value)):
            self.add(here, f"expected {_NOUNS[described.type]}, found {show(value)}")


def _numbers(described: Items) -> dict[str | None, int]:
    """Return the indexes of the kinds of items by their literals; of the only kind without one, by None."""
    return {_literal(kind): number for number, kind in enumerate(described.kinds)}


def _number_of(numbers: Mapping[str | None, int], item: Json) -> int | None:
    given = item.get("type") if isinstance(item, dict) else None
    if None in numbers or (given is None and len(numbers) == 1):
        return 0
    return numbers.get(given) if isinstance(given, str) else None


def kind_of(described: Items, item: Json) -> int | None:
    """Return the index of an item's kind in the description; None if no kind matches."""
    return _number_of(_numbers(described), item)


def _literal(kind: Described) -> str | None:
    """Return the literal in the `type` of a kind; None without one."""
    entry = dict(kind.entries).get("type") if isinstance(kind, Group) else None
    return entry.text if isinstance(entry, Leaf) and entry.text else None


_NOUNS: Mapping[str | None, str] = {
    None: "a single value",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "quantity": "a quantity such as 500m or 4Gi",
    "uri": "an address such as s3://bucket/folder",
    SECRET: "text",
}


def _is_quantity(value: Json) -> bool:
    try:
        quantity.parse(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)


_ACCEPTS: Mapping[str, Callable[[Json], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "quantity": _is_quantity,
    "uri": lambda value: isinstance(value, str) and _URI.fullmatch(value) is not None,
    SECRET: lambda value: isinstance(value, str),
}


def json_schema(description: Group, example: Mapping[str, Json], title: str) -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of the described values."""
    entries = dict(description.entries)
    for key, text in ENVELOPE.items():
        entries.setdefault(key, Leaf(key == "taskDef", None, text))
    schema = _schema(Group(tuple(entries.items()), required=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **schema,
        **({"examples": [dict(example)]} if example else {}),
    }


_SCHEMAS: Mapping[str | None, dict[str, Json]] = {
    None: {"type": ["string", "number", "boolean"]},
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "quantity": {"type": ["string", "number"]},
    "uri": {"type": "string", "format": "uri"},
    SECRET: {"type": "string", "format": "password", "writeOnly": True},
}


def _schema(described: Described) -> dict[str, Json]:
    if isinstance(described, Leaf):
        schema = dict(_SCHEMAS[described.type])
        if not described.required:
            types = schema["type"]
            schema["type"] = [*(types if isinstance(types, list) else [types]), "null"]
        return {**schema, "description": described.text} if described.text else schema
    if isinstance(described, FreeMapping):
        return {"type": ["object", "null"]}
    if isinstance(described, Group):
        schema = _schema_of_mapping(*_keys(described))
        return schema if described.required else {**schema, "type": ["object", "null"]}
    kinds: list[Json] = [_schema_of_item(described, kind) for kind in described.kinds]
    needed: list[Json] = [{"contains": _schema_of_item(described, kind)} for kind in described.kinds if kind.required]
    return {
        "type": "array" if described.required else ["array", "null"],
        "items": kinds[0] if len(kinds) == 1 else {"oneOf": kinds},
        **({"allOf": needed} if needed else {}),
    }


def _schema_of_item(items: Items, kind: Described) -> dict[str, Json]:
    if not isinstance(kind, Group):
        return _schema(kind)
    properties, required = _keys(kind)
    literal = _literal(kind)
    if literal:
        properties["type"] = {"const": literal}
        required = sorted({*required, "type"})
    if items.takes_headers(kind):
        properties["headers"] = {"type": "object", "additionalProperties": {"type": "string"}}
        if literal == "event":
            words: Json = {"type": "array", "items": {"enum": [*EVENTS]}, "minItems": 1, "uniqueItems": True}
            properties["events"] = words
    return _schema_of_mapping(properties, required)


def _keys(group: Group) -> tuple[dict[str, Json], list[str]]:
    """Return the schemas of the keys of a mapping, and its required keys."""
    schemas: dict[str, Json] = {key: _schema(entry) for key, entry in group.entries}
    return schemas, [key for key, entry in group.entries if entry.required]


def _schema_of_mapping(properties: dict[str, Json], required: list[str]) -> dict[str, Json]:
    needed: dict[str, Json] = {"required": [*required]} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **needed}


def secret_places(group: Group, here: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the places of the secrets in a mapping, which are in no list."""
    places: list[tuple[str, ...]] = []
    for key, entry in group.entries:
        if isinstance(entry, Group):
            places += secret_places(entry, (*here, key))
        elif isinstance(entry, Leaf) and entry.type == SECRET:
            places.append((*here, key))
    return tuple(places)


def without_optional(described: Described, value: object) -> dict[str, Json]:
    """Return a mapping without the values that its description leaves to its user."""
    entries = dict(described.entries) if isinstance(described, Group) else {}
    kept: dict[str, Json] = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        entry = entries.get(key)
        if isinstance(entry, Items) and isinstance(item, list) and entry.required:
            kinds = [(item, entry.kinds[number]) for item in item if (number := kind_of(entry, item)) is not None]
            kept[key] = [
                {**without_optional(kind, item), "type": item["type"]}
                if "type" in item
                else without_optional(kind, item)
                for item, kind in kinds
                if kind.required and isinstance(item, dict)
            ]
        elif isinstance(entry, Group) and entry.required:
            kept[key] = without_optional(entry, item)
        elif entry is None or entry.required:
            kept[key] = item
    return kept
