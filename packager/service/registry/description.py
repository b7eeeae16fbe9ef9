"""Parses `user_values_description`, the description of the values that users fill in, and checks filled values.

A leaf is a text such as `(Required) Number of steps` or `(Optional:integer) Batch size`. A mapping is required if it
has a required leaf. A list describes kinds of items: the leaf `type` of a kind is the literal that identifies it.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from packager.base import units, yamlio
from packager.base.problems import Fault, Problem, show, similar
from packager.base.values import Value
from packager.service.failures import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.base.values import Json
    from packager.base.yamlio import Document, Location

MAX_BYTES = 64 << 10
"""The maximum size of a description, an example or system values."""

_MAX_DEPTH = 8

SECRET = "secret"  # noqa: S105 - a type
"""The type of a value that no response, log, manifest or template gets: pods read it from the Secret of the job."""

_SECRET_KEY = re.compile("[A-Za-z0-9_-]{1,60}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")

EVENTS = ("pending", "running", "succeeded", "failed", "deleted")
"""The statuses that an endpoint of type `event` can request."""

ENDPOINTS = ("endpoints",)
"""The place of the list of endpoints, in which callbacks and headers are looked for."""

ENVELOPE = {
    "taskDef": "name of the task definition",
    "name": "name of the application",
    "description": "description of the job",
    "creator": "who the job is for",
}
"""The keys that each description has, also if its text lacks them, each with its meaning."""


class Leaf(Value, frozen=True):
    """A value that a user fills in."""

    required: bool  # whether the value must be filled in
    type: str | None  # the type of the value, a key of _TYPES; None for any scalar
    text: str  # the meaning of the value, for people; of the `type` of a kind of items, the value itself


class FreeMapping(Value, frozen=True):
    """An optional mapping with any keys."""

    required: bool = False


class Group(Value, frozen=True):
    """A mapping with the described keys."""

    entries: Mapping[str, Described]
    required: bool


class Items(Value, frozen=True):
    """A list; each item has one of the described kinds."""

    kinds: Mapping[str | None, Described]  # by the literal in `type`; None for the only kind without one
    required: bool  # whether an item of a kind is required

    def kind_of(self, item: Json) -> Described | None:
        """Return the kind of an item; None if there is no such kind."""
        given = item.get("type") if isinstance(item, dict) else None
        if None in self.kinds or (given is None and len(self.kinds) == 1):
            return next(iter(self.kinds.values()))
        return self.kinds.get(given) if isinstance(given, str) else None


Described = Leaf | FreeMapping | Group | Items
"""The description of the value at one place."""


def _is_quantity(value: Json) -> bool:
    try:
        units.parse_quantity(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)


_LITERAL, _HEADERS, _EVENTS = " literal", " headers", " events"
"""The types of values that no description can name: the `type` of an item, and those of endpoints of the service."""


_TYPES: Mapping[str | None, tuple[str, Callable[[Json], bool]]] = {
    "string": ("text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "number": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "quantity": ("a quantity such as 500m or 4Gi", _is_quantity),
    "uri": (
        "an address such as s3://bucket/folder",
        lambda value: isinstance(value, str) and _URI.fullmatch(value) is not None,
    ),
    SECRET: ("text", lambda value: isinstance(value, str)),
    None: ("a single value", lambda _: True),
}
"""The noun for the values of each type, and the test of a value."""

_NAMES = [name for name in _TYPES if name]
_LEAF = re.compile(rf"\((Required|Optional)(?:: *({'|'.join(_NAMES)}))?\) *(.*)", re.DOTALL)
_HINT = f"a type may follow, as in (Required:integer); the types are {', '.join(_NAMES)}"


def read(text: str, name: str = "user_values_description") -> tuple[Group | None, list[Problem]]:
    """Return the parsed description, or None and its problems."""
    document, problems = read_mapping(text, name)
    if problems:
        return None, problems
    reader = _DescriptionReader(document)
    entries = reader.group((), document.data or {}).entries
    if reader.problems:
        return None, reader.problems
    envelope = {key: Leaf(key == "taskDef", None, text) for key, text in ENVELOPE.items() if key not in entries}
    return Group({**entries, **envelope}, True), []


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
        entries = {key: self._described((*here, key), item) for key, item in value.items()}
        return Group(entries, any(entry.required for entry in entries.values()))

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
        kinds: dict[str | None, Described] = {}
        for index, item in enumerate(value):
            literal, kind = _kind(self._described((*here, index), item), are_endpoints=here == ENDPOINTS)
            if literal is not None and literal in kinds:
                self._add(here, f"two kinds of items have the type {literal!r}")
            kinds[literal] = kind
        if not kinds:
            self._add(here, "expected at least one kind of item")
        if None in kinds and len(value) > 1:
            self._add(here, "several kinds of items need a key 'type' each, by which they are known")
        return Items(kinds, any(kind.required for kind in kinds.values()))

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


def _kind(kind: Described, *, are_endpoints: bool) -> tuple[str | None, Described]:
    """Return the literal of a kind of items, None without one, and the kind with the keys that the service adds.

    Only items of the list `endpoints` of a job have headers, which are secrets and are sealed.
    """
    if not isinstance(kind, Group):
        return None, kind
    entries, of_type = dict(kind.entries), kind.entries.get("type")
    literal = of_type.text or None if isinstance(of_type, Leaf) else None
    if literal:
        entries["type"] = Leaf(kind.entries["type"].required, _LITERAL, literal)
    if are_endpoints and "endpoint" in entries:
        entries["headers"] = Leaf(required=False, type=_HEADERS, text="")
        if literal == "event":
            entries["events"] = Leaf(required=False, type=_EVENTS, text="")
    return literal, Group(entries, kind.required)


def faults(description: Group, filled: Mapping[str, Json], *, reserved: Mapping[str, str] | None = None) -> list[Fault]:
    """Return the first faults of filled values: at most one more than a response lists."""
    refused = {key: reason for key, reason in (reserved or {}).items() if key in filled}
    found = itertools.chain(
        (Fault((key,), reason, at_key=True) for key, reason in refused.items()),
        _faults((), description, {key: filled[key] for key in filled if key not in refused}),
    )
    return list(itertools.islice(found, MOST + 1))


def _faults(here: Location, described: Described, value: Json) -> Iterator[Fault]:
    """Yield the faults of a value that is described."""
    if isinstance(described, Items):
        yield from _of_items(here, described, value)
    elif isinstance(described, Leaf):
        yield from _of_leaf(here, described, value)
    elif not isinstance(value, dict):
        yield Fault(here, f"expected a mapping, found {show(value)}")
    elif isinstance(described, Group):
        yield from _of_group(here, described.entries, value)


def _of_group(here: Location, entries: Mapping[str, Described], value: Mapping[str, Json]) -> Iterator[Fault]:
    for key, item in value.items():
        if key not in entries:
            known = similar(key, entries) or (f"the keys are: {', '.join(entries)}" if entries else None)
            yield Fault((*here, key), f"unknown key {show(key)}", known, at_key=True)
        elif item is not None:
            yield from _faults((*here, key), entries[key], item)
    for key, entry in entries.items():
        if entry.required and value.get(key) is None:
            yield from _missing((*here, key), entry)


def _missing(here: Location, described: Described) -> Iterator[Fault]:
    """Yield a fault for each missing leaf, also those in a missing mapping."""
    if isinstance(described, Group):
        yield from _of_group(here, described.entries, {})
    elif isinstance(described, Items):
        yield from _of_items(here, described, [])
    else:
        yield Fault(here, f"is missing: {described.text}" if isinstance(described, Leaf) else "is missing")


def _of_items(here: Location, described: Items, value: Json) -> Iterator[Fault]:
    if not isinstance(value, list):
        yield Fault(here, f"expected a list, found {show(value)}")
        return
    kinds = [described.kind_of(item) for item in value]
    for index, (item, kind) in enumerate(zip(value, kinds, strict=True)):
        if kind is not None:
            yield from _faults((*here, index), kind, item)
        elif isinstance(item, dict):
            given, literals = item.get("type"), [literal for literal in described.kinds if literal]
            hint = similar(given, literals) if isinstance(given, str) else None
            yield Fault((*here, index, "type"), f"expected {' or '.join(literals)}, found {show(given)}", hint)
        else:
            yield Fault((*here, index), f"expected a mapping, found {show(item)}")
    seen = set(map(id, kinds))
    for literal, required in described.kinds.items():
        if required.required and id(required) not in seen:
            yield Fault(here, f"needs an item of type {literal!r}" if literal else "needs an item")


def _of_leaf(here: Location, described: Leaf, value: Json) -> Iterator[Fault]:
    if described.type == _HEADERS:
        yield from _faults(here, FreeMapping(), value)
        for key, text in value.items() if isinstance(value, dict) else ():
            if not isinstance(text, str):
                yield Fault((*here, key), f"expected text, found {show(text)}")
    elif described.type == _EVENTS:
        yield from _of_events(here, value)
    elif described.type == SECRET and not isinstance(value, str):
        yield Fault(here, "expected text")  # the found value is not shown
    elif described.type != _LITERAL:  # else the kind was found by it
        noun, accepts = _TYPES[described.type]
        if isinstance(value, dict | list) or not accepts(value):
            yield Fault(here, f"expected {noun}, found {show(value)}")


def _of_events(here: Location, value: Json) -> Iterator[Fault]:
    if not isinstance(value, list) or not value:
        yield Fault(here, f"expected a list of {', '.join(EVENTS)}, found {show(value)}")
        return
    for index, word in enumerate(value):
        if word not in EVENTS or word in value[:index]:
            hint = similar(word, EVENTS) if isinstance(word, str) and word not in EVENTS else None
            yield Fault((*here, index), f"expected one of {', '.join(EVENTS)}, each once, found {show(word)}", hint)


def secret_places(group: Group, here: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the places of the secrets in a mapping, which are in no list."""
    places: list[tuple[str, ...]] = []
    for key, entry in group.entries.items():
        if isinstance(entry, Group):
            places += secret_places(entry, (*here, key))
        elif isinstance(entry, Leaf) and entry.type == SECRET:
            places.append((*here, key))
    return tuple(places)


def without_optional(described: Described, value: object) -> dict[str, Json]:
    """Return a mapping without the values that its description leaves to its user."""
    entries = described.entries if isinstance(described, Group) else {}
    kept: dict[str, Json] = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        entry = entries.get(key)
        if isinstance(entry, Items) and isinstance(item, list) and entry.required:
            kinds = [(one, kind) for one in item if (kind := entry.kind_of(one)) is not None]
            kept[key] = [without_optional(kind, one) for one, kind in kinds if kind.required and isinstance(one, dict)]
        elif isinstance(entry, Group) and entry.required:
            kept[key] = without_optional(entry, item)
        elif entry is None or entry.required or (isinstance(entry, Leaf) and entry.type == _LITERAL):
            kept[key] = item
    return kept
