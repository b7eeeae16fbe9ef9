"""The form of a definition: makes the fields from the description, and reads the filled values from the inputs.

The name of a field is the JSON pointer of its value. Items of a list are in slots: `/endpoints:0:1` is the second item
of the first kind. Empty inputs are left out.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.service.complaints import Complaint, of_problem, pointer
from packager.service.registry.description import ENVELOPE, SECRET, FreeMapping, Group, Items, Leaf, read_mapping
from packager.service.registry.template_values import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.service.registry.definitions import Definition
    from packager.service.registry.description import Described

_MOST_SLOTS = 50
"""The most items of one kind in a form."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")


class Field(Value, frozen=True):
    """One input.

    Attributes:
        name: The JSON pointer of the value, after the slot of a list item.
        path: The keys above the value, each followed by a dot, for people.
        label: The last key of the value.
        text: The description of the value.
        required: Whether the input must be filled in.
        kind: line, integer, number, boolean, secret, yaml or headers.
        placeholder: The value in the example.
        value: The text in the input.
        errors: The problems with the value.
    """

    name: str
    path: str
    label: str
    text: str
    required: bool
    kind: str
    placeholder: str = ""
    value: str = ""
    errors: tuple[str, ...] = ()


class Slot(Value, frozen=True):
    """One item of a list.

    Attributes:
        title: The heading of the item.
        fields: The input fields of the item.
    """

    title: str
    fields: tuple[Field, ...]


class ItemList(Value, frozen=True):
    """The items of one kind.

    Attributes:
        name: The JSON pointer of the list, and the number of the kind.
        title: The heading of the items.
        required: Whether one item must be filled in.
        slots: Input fields, one slot per list item.
        errors: The problems with the list.
    """

    name: str
    title: str
    required: bool
    slots: tuple[Slot, ...]
    errors: tuple[str, ...] = ()


class JobForm(Value, frozen=True):
    """A form, in the order in which it is shown.

    Attributes:
        required: The inputs that must be filled in.
        optional: The inputs that may be left empty.
        errors: All problems, each after the name of its input; the name is empty without an input.
    """

    required: tuple[Field | ItemList, ...]
    optional: tuple[Field | ItemList, ...]
    errors: tuple[tuple[str, str], ...] = ()

    @property
    def optional_is_used(self) -> bool:
        """Whether an optional input has a value or an error."""
        fields = [item for item in self.optional if isinstance(item, Field)]
        slots = [slot for item in self.optional if isinstance(item, ItemList) for slot in item.slots]
        fields += [field for slot in slots for field in slot.fields]
        return any(field.value or field.errors for field in fields) or any(
            item.errors for item in self.optional if isinstance(item, ItemList)
        )


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
        if isinstance(entry, Items) and _has_slots(entry):
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
            first: Json = next(iter(_examples(kind, example)), {})
            for index in range(_slot_count(here, number, self._data, 1)):
                slot = _slot(here, number, index)
                item = self.group((), _without_type(kind), first, slot)
                headers = self._headers(f"{slot}/headers") if _takes_headers(kind) else None
                if headers:
                    item["headers"] = headers
                if item:
                    self.places[pointer((*here, len(items)))] = slot
                    literal = _literal(kind)
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


def build(
    definition: Definition, data: Mapping[str, str], complaints: Sequence[Complaint] = (), sent: Sent | None = None
) -> JobForm:
    """Return the form of a definition.

    Args:
        definition: The definition.
        data: The texts in the inputs, by name.
        complaints: The problems with the filled values.
        sent: The filled values to which the complaints apply.
    """
    builder = _FormBuilder(data, _by_name(complaints, sent.places if sent else {}))
    parts: list[Field | ItemList] = []
    for key, entry in entries(definition).items():
        parts += builder.parts((key,), entry, definition.example.get(key), "")
    errors = [(name, text) for name, texts in builder.complaints.items() for text in texts]
    errors = [(name if name in builder.names else "", _named(name, text)) for name, text in errors]
    return JobForm(
        tuple(part for part in parts if part.required),
        tuple(part for part in parts if not part.required),
        tuple(errors),
    )


def _named(name: str, text: str) -> str:
    return f"{_readable(name)}: {text}" if name else text


def _readable(name: str) -> str:
    return ".".join(
        part for part in re.sub(r":\d+:(\d+)", lambda match: f".{int(match[1]) + 1}", name).split("/") if part
    )


def _by_name(complaints: Sequence[Complaint], places: Mapping[str, str]) -> dict[str, list[str]]:
    """Return messages by the names of inputs: the pointer of an item is replaced by the name of its slot."""
    by_name: dict[str, list[str]] = {}
    for complaint in complaints:
        name = complaint.pointer
        for item, slot in places.items():
            if name == item or name.startswith(f"{item}/"):
                name = slot + name[len(item) :]
                break
        if re.search(r"/headers/[^/]*$", name):
            name = name.rpartition("/")[0]
        text = f"{complaint.detail}; {complaint.hint}" if complaint.hint else complaint.detail
        by_name.setdefault(name, []).append(text)
    return by_name


class _FormBuilder:
    """Makes the inputs for the values that a definition describes."""

    def __init__(self, data: Mapping[str, str], complaints: Mapping[str, list[str]]) -> None:
        self._data = data
        self.complaints = complaints
        self.names: set[str] = set()

    def parts(self, here: Location, entry: Described, example: Json, prefix: str) -> Iterator[Field | ItemList]:
        if isinstance(entry, Group):
            for key, below in entry.entries:
                yield from self.parts((*here, key), below, mapping(example).get(key), prefix)
        elif isinstance(entry, Items) and _has_slots(entry):
            for number in range(len(entry.kinds)):
                yield self._list(here, entry, number, example)
        else:
            yield self._field(here, entry, example, prefix)

    def _field(self, here: Location, entry: Described, example: Json, prefix: str) -> Field:
        name = prefix + pointer(here)
        kind = "yaml"
        text = "A list, as YAML" if isinstance(entry, Items) else "Any keys and values, as YAML"
        placeholder = yamlio.dump([example]).strip() if example else ""
        if isinstance(entry, Leaf):
            kind = entry.type if entry.type in ("integer", "number", "boolean", SECRET) else "line"
            text = entry.text
            placeholder = shown(example)
        required = entry.required and not isinstance(entry, FreeMapping)
        return self._made(name, here, text, required, kind, placeholder)

    def _made(  # noqa: PLR0913, PLR0917 - what an input is made of
        self,
        name: str,
        here: Location,
        text: str,
        required: bool,  # noqa: FBT001
        kind: str,
        placeholder: str,
    ) -> Field:
        self.names.add(name)
        *above, label = map(str, here)
        path = "".join(f"{key}." for key in above)
        errors = tuple(error.removesuffix(f": {text}") for error in self.complaints.get(name, ()))
        return Field(name, path, label, text, required, kind, placeholder, self._data.get(name, ""), errors)

    def _list(self, here: Location, entry: Items, number: int, example: Json) -> ItemList:
        kind = entry.kinds[number]
        assert isinstance(kind, Group)
        examples = _examples(kind, example)
        literal = _literal(kind)
        key = pointer(here)
        name = f"{key}:{number}"
        self.names.add(name)
        slots = []
        for index in range(_slot_count(here, number, self._data, len(examples))):
            slot = _slot(here, number, index)
            self.names.add(slot)
            item = examples[min(index, len(examples) - 1)] if examples else {}
            fields = [
                part
                for below, leaf in _without_type(kind).entries
                for part in self.parts((below,), leaf, mapping(item).get(below), slot)
                if isinstance(part, Field)
            ]
            if _takes_headers(kind):
                text = "HTTP headers, one in a line. They are secrets: no view shows them."
                fields.append(self._made(f"{slot}/headers", ("headers",), text, False, "headers", ""))
            slots.append(Slot(f"{literal or here[-1]} {index + 1}", tuple(fields)))
        errors = self.complaints.get(key, ()) if number == 0 else ()
        title = ".".join(map(str, here)) + (f": {literal}" if literal else "")
        if number == 0:
            self.names.add(key)
        return ItemList(name, title, kind.required, tuple(slots), tuple(errors))


def _has_slots(entry: Items) -> bool:
    """Whether a list has an input for each value of its items; others are filled in as YAML."""
    return all(
        isinstance(kind, Group) and not any(isinstance(below, Items) for _, below in kind.entries)
        for kind in entry.kinds
    )


def _slot(here: Location, number: int, index: int) -> str:
    return f"{pointer(here)}:{number}:{index}"


def _slot_count(here: Location, number: int, data: Mapping[str, str], examples: int) -> int:
    """Return the number of slots of a form for items of a kind."""
    count = data.get(f"count:{pointer(here)}:{number}", "")
    return min(_MOST_SLOTS, int(count) if count.isdecimal() and len(count) < 4 else max(1, examples))


def _literal(kind: Group) -> str | None:
    entry = dict(kind.entries).get("type")
    return entry.text if isinstance(entry, Leaf) and entry.text else None


def _without_type(kind: Group) -> Group:
    if _literal(kind) is None:
        return kind
    return Group(tuple((key, entry) for key, entry in kind.entries if key != "type"), kind.required)


def _takes_headers(kind: Group) -> bool:
    return any(key == "endpoint" for key, _ in kind.entries)


def _examples(kind: Group, example: object) -> list[dict[str, Json]]:
    literal = _literal(kind)
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
        elif isinstance(entry, Items) and _has_slots(entry):
            for number, kind in enumerate(entry.kinds):
                assert isinstance(kind, Group)
                items = _examples(kind, value)
                data[f"count:{name}:{number}"] = str(max(1, len(items)))
                for index, item in enumerate(items):
                    _put(data, f"{name}:{number}:{index}", dict(_without_type(kind).entries), item)
        elif isinstance(entry, Leaf):
            data[name] = "" if value == MASK else shown(value)
        elif value:
            data[name] = yamlio.dump([value])
