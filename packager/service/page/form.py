"""The form of a definition: makes the fields from the description, with the texts in their inputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.values import Value
from packager.kubernetes.manifest import mapping
from packager.service.complaints import Complaint, pointer
from packager.service.page.inputs import (
    Sent,
    entries,
    examples_of,
    has_slots,
    literal_type,
    shown,
    slot_count,
    slot_name,
    without_type,
)
from packager.service.registry.description import SECRET, FreeMapping, Group, Items, Leaf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.service.registry.definitions import Definition
    from packager.service.registry.description import Described


class Field(Value, frozen=True):
    """One input.

    Attributes:
        name: The JSON pointer of the value, after the slot of a list item.
        path: The keys above the value, each followed by a dot, for people.
        label: The last key of the value.
        text: The description of the value.
        required: Whether the input must be filled in.
        kind: line, integer, number, boolean, secret, yaml or headers.
        example: The value in the example.
        value: The text in the input.
        errors: The problems with the value.
    """

    name: str
    path: str
    label: str
    text: str
    required: bool
    kind: str
    example: str = ""
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
        elif isinstance(entry, Items) and has_slots(entry):
            for number in range(len(entry.kinds)):
                yield self._list(here, entry, number, example)
        else:
            yield self._field(here, entry, example, prefix)

    def _field(self, here: Location, entry: Described, example: Json, prefix: str) -> Field:
        name = prefix + pointer(here)
        kind = "yaml"
        text = "A list, as YAML" if isinstance(entry, Items) else "Any keys and values, as YAML"
        shown_example = yamlio.dump([example]).strip() if example else ""
        if isinstance(entry, Leaf):
            kind = entry.type if entry.type in ("integer", "number", "boolean", SECRET) else "line"
            text = entry.text
            shown_example = shown(example)
        required = entry.required and not isinstance(entry, FreeMapping)
        return self._made(name, here, text, required, kind, shown_example)

    def _made(  # noqa: PLR0913, PLR0917 - what an input is made of
        self,
        name: str,
        here: Location,
        text: str,
        required: bool,  # noqa: FBT001
        kind: str,
        example: str,
    ) -> Field:
        self.names.add(name)
        *above, label = map(str, here)
        path = "".join(f"{key}." for key in above)
        errors = tuple(error.removesuffix(f": {text}") for error in self.complaints.get(name, ()))
        return Field(name, path, label, text, required, kind, example, self._data.get(name, ""), errors)

    def _list(self, here: Location, entry: Items, number: int, example: Json) -> ItemList:
        kind = entry.kinds[number]
        assert isinstance(kind, Group)
        examples = examples_of(kind, example)
        literal = literal_type(kind)
        key = pointer(here)
        name = f"{key}:{number}"
        self.names.add(name)
        slots = []
        for index in range(slot_count(here, number, self._data, len(examples))):
            slot = slot_name(here, number, index)
            self.names.add(slot)
            item = examples[min(index, len(examples) - 1)] if examples else {}
            fields = [
                part
                for below, leaf in without_type(kind).entries
                for part in self.parts((below,), leaf, mapping(item).get(below), slot)
                if isinstance(part, Field)
            ]
            if entry.takes_headers(kind):
                text = "HTTP headers, one in a line. They are secrets: no view shows them."
                fields.append(self._made(f"{slot}/headers", ("headers",), text, False, "headers", ""))
            slots.append(Slot(f"{literal or here[-1]} {index + 1}", tuple(fields)))
        errors = self.complaints.get(key, ()) if number == 0 else ()
        title = ".".join(map(str, here)) + (f": {literal}" if literal else "")
        if number == 0:
            self.names.add(key)
        return ItemList(name, title, kind.required, tuple(slots), tuple(errors))
