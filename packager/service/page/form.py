"""The form of a definition: its inputs, the filled values in them, and the texts for filled values.

The name of an input is the JSON pointer of its value. A list, such as that of the endpoints, and a free mapping are
filled in as YAML. Empty inputs are left out.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.values import Value
from packager.kubernetes.manifest import mapping
from packager.service.failures import Complaint, of_problem, pointer
from packager.service.registry.description import (
    SECRET,
    Described,
    FreeMapping,
    Group,
    Items,
    Leaf,
    read_mapping,
)
from packager.service.registry.template_values import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.service.registry.definitions import Definition

_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")


class Field(Value, frozen=True):
    """One input."""

    name: str  # the JSON pointer of the value
    path: str  # the keys above the value, each followed by a dot, for people
    label: str  # the last key of the value
    text: str  # the description of the value
    required: bool
    kind: str  # line, integer, number, boolean, secret or yaml
    example: str = ""
    value: str = ""
    errors: tuple[str, ...] = ()


class JobForm(Value, frozen=True):
    """A form, in the order in which it is shown."""

    required: tuple[Field, ...]
    optional: tuple[Field, ...]
    errors: tuple[tuple[str, str], ...] = ()  # all problems, each after the name of its input; empty without an input

    @property
    def optional_is_used(self) -> bool:
        """Whether an optional input has a value or an error."""
        return any(field.value or field.errors for field in self.optional)


def _places(definition: Definition) -> Iterator[tuple[Location, Described, Json]]:
    """Yield the place, the description and the example of each value that has an input."""
    described = dict(definition.described.entries)
    described.pop("taskDef", None)

    def walk(here: Location, entry: Described, example: Json) -> Iterator[tuple[Location, Described, Json]]:
        if isinstance(entry, Group):
            for key, below in entry.entries.items():
                yield from walk((*here, key), below, mapping(example).get(key))
        else:
            yield here, entry, example

    for key, entry in described.items():
        yield from walk((key,), entry, definition.example.get(key))


def build(definition: Definition, data: Mapping[str, str], complaints: Sequence[Complaint] = ()) -> JobForm:
    """Return the form of a definition."""
    fields: list[Field] = []
    names = {pointer(here) for here, _, _ in _places(definition)}
    errors: list[tuple[str, str]] = []
    by_name: dict[str, list[str]] = {}
    for item in complaints:
        above = (item.pointer[: match.start()] for match in re.finditer(r"/|$", item.pointer))
        name = next((part for part in above if part in names), "")
        inside = item.pointer.removeprefix(name)
        detail = f"{item.detail}; {item.hint}" if item.hint else item.detail
        by_name.setdefault(name, []).append(f"{_readable(inside)}: {detail}" if inside and name else detail)
        errors.append((name, f"{_readable(item.pointer)}: {detail}" if item.pointer else detail))
    for here, entry, example in _places(definition):
        name, kind = pointer(here), "yaml"
        text = "A list, as YAML" if isinstance(entry, Items) else "Any keys and values, as YAML"
        shown_example = yamlio.dump([example]).strip() if example else ""
        if isinstance(entry, Leaf):
            kind = entry.type if entry.type in ("integer", "number", "boolean", SECRET) else "line"
            text, shown_example = entry.text, shown(example)
        elif isinstance(entry, Items):
            kinds = "; ".join(filter(None, map(_words, entry.kinds.values())))
            text = f"{text}. {kinds}" if kinds else text
        required = entry.required and not isinstance(entry, FreeMapping)
        *parents, label = map(str, here)
        path = "".join(f"{key}." for key in parents)
        told = tuple(error.removesuffix(f": {text}") for error in by_name.get(name, ()))
        fields.append(Field(name, path, label, text, required, kind, shown_example, data.get(name, ""), told))
    return JobForm(
        tuple(field for field in fields if field.required),
        tuple(field for field in fields if not field.required),
        tuple(errors),
    )


def _words(kind: Described) -> str:
    """Return the keys of a kind of items with their meaning."""
    entries = kind.entries.items() if isinstance(kind, Group) else ()
    return ", ".join(f"{key}: {entry.text}" for key, entry in entries if isinstance(entry, Leaf) and entry.text)


def _readable(name: str) -> str:
    return ".".join(str(int(part) + 1) if part.isdecimal() else part for part in name.split("/") if part)


def read(definition: Definition, data: Mapping[str, str]) -> tuple[dict[str, Json], list[Complaint]]:
    """Return the filled values in the inputs of a form, and the inputs that cannot be read; others are ignored."""
    filled: dict[str, Json] = {"taskDef": definition.body.name}
    complaints: list[Complaint] = []
    for here, entry, example in _places(definition):
        name = pointer(here)
        text = data.get(name, "")
        if not text.strip():
            continue
        if isinstance(entry, Leaf):
            value = _scalar(text, entry.type, example)
        else:
            key = "items" if isinstance(entry, Items) else "values"
            source = f"items:\n{text}" if isinstance(entry, Items) else text
            document, problems = read_mapping(source, key)
            complaints += [Complaint(name, of_problem(problem, key).detail, problem.hint) for problem in problems]
            value = mapping(document.data).get(key) if isinstance(entry, Items) else document.data
        if value not in (None, {}, []):
            holder = filled
            for step in here[:-1]:
                holder = holder.setdefault(str(step), {})  # type: ignore[assignment]
            holder[str(here[-1])] = value
    return filled, complaints


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


def shown(value: object) -> str:
    """Return the text of a single value in an input; empty for a list or a mapping."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, dict | list) else str(value)


def data_of(definition: Definition, filled: Mapping[str, object]) -> dict[str, str]:
    """Return the texts in the inputs of a form for filled values, without headers and other secrets."""
    data: dict[str, str] = {}
    for here, entry, _ in _places(definition):
        value: object = filled
        for step in here:
            value = mapping(value).get(str(step))
        if isinstance(entry, Leaf):
            data[pointer(here)] = "" if value == MASK else shown(value)
        elif isinstance(value, list):
            items = [
                {k: v for k, v in item.items() if k != "headers"} if isinstance(item, dict) else item for item in value
            ]
            data[pointer(here)] = yamlio.dump([items])
        elif value:
            data[pointer(here)] = yamlio.dump([value])
    return data
