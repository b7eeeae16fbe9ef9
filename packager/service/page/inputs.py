"""The inputs of a form: their names, the filled values in them, and the texts for filled values.

The name of an input is the JSON pointer of its value. Items of a list are in slots: `/endpoints:0:1` is the second item
of the first kind. Empty inputs are left out.

Tests: service/page/test_form.py.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.service.complaints import Complaint, of_problem, pointer
from packager.service.registry.description import ENVELOPE, Group, Items, Leaf, read_mapping
from packager.service.registry.template_values import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.service.registry.definitions import Definition
    from packager.service.registry.description import Described

_MOST_SLOTS = 50
"""The most items of one kind in a form."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")


class Sent(Value, frozen=True):
    """The content of a form that was sent.

    Attributes:
        filled: The filled values.
        places: The pointer of each item, and the name of its slot.
        complaints: The inputs that cannot be read.
    """

    filled: dict[str, Json]
    places: Mapping[str, str]
    complaints: tuple[Complaint, ...] = ()


def entries(definition: Definition) -> dict[str, Described]:
    """Return the descriptions of the values of a definition by key, without the name of the definition."""
    described = dict(definition.described.entries)
    for key in ("name", "description", "creator"):
        described.setdefault(key, Leaf(required=False, type=None, text=ENVELOPE[key].capitalize()))
    described.pop("taskDef", None)
    return described


def read(definition: Definition, data: Mapping[str, str]) -> Sent:
    """Return the filled values in the inputs of a form; inputs outside the definition are ignored."""
    reader = _InputReader(data)
    filled = reader.group((), Group(tuple(entries(definition).items()), required=True), dict(definition.example))
    return Sent({"taskDef": definition.body.name, **filled}, reader.places, tuple(reader.complaints))


class _InputReader:
    """Reads the inputs of a form by the description of their values."""

    def __init__(self, data: Mapping[str, str]) -> None:
        self._data = data
        self.places: dict[str, str] = {}
        self.complaints: list[Complaint] = []

    def group(self, here: Location, group: Group, example: Json, prefix: str = "") -> dict[str, Json]:
        values: dict[str, Json] = {}
        for key, entry in group.entries:
            value = self._value((*here, key), entry, mapping(example).get(key), prefix)
            if value is not None and (value != {} or not isinstance(entry, Group)):
                values[key] = value
        return values

    def _value(self, here: Location, entry: Described, example: Json, prefix: str) -> Json:
        name = prefix + pointer(here)
        if isinstance(entry, Group):
            return self.group(here, entry, example, prefix)
        if isinstance(entry, Items) and has_slots(entry):
            return self._items(here, entry, example)
        text = self._data.get(name, "")
        if not text.strip():
            return None
        if isinstance(entry, Leaf):
            return _scalar(text, entry.type, example)
        key = "items" if isinstance(entry, Items) else "values"
        source = f"items:\n{text}" if isinstance(entry, Items) else text
        document, problems = read_mapping(source, key)
        self.complaints += [Complaint(name, of_problem(problem, key).detail, problem.hint) for problem in problems]
        return (mapping(document.data).get(key) if isinstance(entry, Items) else document.data) or None

    def _items(self, here: Location, entry: Items, example: Json) -> list[Json] | None:
        items: list[Json] = []
        for number, kind in enumerate(entry.kinds):
            assert isinstance(kind, Group)
            first: Json = next(iter(examples_of(kind, example)), {})
            for index in range(slot_count(here, number, self._data, 1)):
                slot = slot_name(here, number, index)
                item = self.group((), without_type(kind), first, slot)
                headers = self._headers(f"{slot}/headers") if entry.takes_headers(kind) else None
                if headers:
                    item["headers"] = headers
                if item:
                    self.places[pointer((*here, len(items)))] = slot
                    literal = literal_type(kind)
                    items.append({**item, "type": literal} if literal else item)
        return items or None

    def _headers(self, name: str) -> dict[str, Json]:
        headers: dict[str, Json] = {}
        for line in self._data.get(name, "").splitlines():
            key, colon, value = line.partition(":")
            if line.strip() and not (colon and key.strip()):
                self.complaints.append(Complaint(name, "expected lines such as `x-api-key: 1234`"))
            elif line.strip():
                headers[key.strip()] = value.strip()
        return headers


def _scalar(text: str, kind: str | None, example: Json) -> Json:
    """Return the value in an input; text that is not of the expected type stays text, which the later check refuses."""
    text = text.strip() if kind not in (None, "string") else text.replace("\r\n", "\n")
    if kind == "integer":
        return int(text) if _INTEGER.fullmatch(text) else text
    if kind == "number":
        try:
            number = float(text)
        except ValueError:
            return text
        return (int(text) if _INTEGER.fullmatch(text) else number) if math.isfinite(number) else text
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if kind is not None or isinstance(example, str):
        return text
    value = yamlio.scalar(text.strip())
    return text if value is None or (isinstance(value, float) and not math.isfinite(value)) else value


def has_slots(entry: Items) -> bool:
    """Return whether a list has an input for each value of its items; others are filled in as YAML."""
    return all(
        isinstance(kind, Group) and not any(isinstance(below, Items) for _, below in kind.entries)
        for kind in entry.kinds
    )


def slot_name(here: Location, number: int, index: int) -> str:
    """Return the name of a slot: the pointer of its list, the number of its kind, and its index."""
    return f"{pointer(here)}:{number}:{index}"


def slot_count(here: Location, number: int, data: Mapping[str, str], examples: int) -> int:
    """Return the number of slots of a form for items of a kind."""
    count = data.get(f"count:{pointer(here)}:{number}", "")
    return min(_MOST_SLOTS, int(count) if count.isdecimal() and len(count) < 4 else max(1, examples))


def literal_type(kind: Group) -> str | None:
    """Return the type that all items of a kind have in common; None if their kind names none."""
    entry = dict(kind.entries).get("type")
    return entry.text if isinstance(entry, Leaf) and entry.text else None


def without_type(kind: Group) -> Group:
    """Return a kind of items without the type that all of them have in common."""
    if literal_type(kind) is None:
        return kind
    return Group(tuple((key, entry) for key, entry in kind.entries if key != "type"), kind.required)


def examples_of(kind: Group, example: object) -> list[dict[str, Json]]:
    """Return the items of a list in the example that are of a kind."""
    literal = literal_type(kind)
    items = [item for item in listing(example) if isinstance(item, dict)]
    return [item for item in items if literal is None or item.get("type") == literal]


def shown(value: object) -> str:
    """Return the text of a single value in an input; empty for a list or a mapping."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, dict | list) else str(value)


def data_of(definition: Definition, filled: Mapping[str, object]) -> dict[str, str]:
    """Return the texts in the inputs of a form for filled values, without headers and other secrets."""
    data: dict[str, str] = {}
    _put(data, "", entries(definition), filled)
    return data


def _put(data: dict[str, str], prefix: str, described: Mapping[str, Described], values: Mapping[str, object]) -> None:
    for key, entry in described.items():
        name, value = prefix + pointer((key,)), values.get(key)
        if value is None:
            continue
        if isinstance(entry, Group):
            _put(data, name, dict(entry.entries), mapping(value))
        elif isinstance(entry, Items) and has_slots(entry):
            for number, kind in enumerate(entry.kinds):
                assert isinstance(kind, Group)
                items = examples_of(kind, value)
                data[f"count:{name}:{number}"] = str(max(1, len(items)))
                for index, item in enumerate(items):
                    _put(data, f"{name}:{number}:{index}", dict(without_type(kind).entries), item)
        elif isinstance(entry, Leaf):
            data[name] = "" if value == MASK else shown(value)
        elif value:
            data[name] = yamlio.dump([value])
