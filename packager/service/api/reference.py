"""The operations of the OpenAPI document as values, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping


class Input(Value, frozen=True):
    """A parameter, or a field of a body.

    Attributes:
        name: The name.
        place: path, query, header or body.
        form: The type and its limits, in words.
        required: Whether it must be sent.
        text: The meaning; empty if the name says it.
    """

    name: str
    place: str
    form: str
    required: bool
    text: str


class Operation(Value, frozen=True):
    """A method of a path.

    Attributes:
        method: The method, in capitals.
        path: The path.
        text: The effect.
        inputs: The parameters, and the fields of the body.
        answer: The name of the answer's type; empty for another answer.
        fields: The fields of the answer.
        statuses: The statuses of the answers, without problems.
    """

    method: str
    path: str
    text: str
    inputs: tuple[Input, ...]
    answer: str
    fields: tuple[str, ...]
    statuses: tuple[str, ...]


def operations(document: Mapping[str, object]) -> tuple[Operation, ...]:
    """Return the operations of an OpenAPI document, in its order."""
    schemas = mapping(mapping(document.get("components")).get("schemas"))
    return tuple(
        _operation(method.upper(), path, mapping(item), schemas)
        for path, methods in mapping(document.get("paths")).items()
        for method, item in mapping(methods).items()
    )


def _operation(method: str, path: str, item: Mapping[str, object], schemas: Mapping[str, object]) -> Operation:
    inputs = [
        Input(
            str(entry.get("name")),
            str(entry.get("in")),
            _form(mapping(entry.get("schema"))),
            entry.get("in") == "path" or bool(entry.get("required")),
            str(entry.get("description") or ""),
        )
        for entry in map(mapping, listing(item.get("parameters")))
    ]
    _, body = _named(_content(mapping(item.get("requestBody"))), schemas)
    required = listing(body.get("required"))
    inputs += [
        Input(name, "body", _form(mapping(field)), name in required, str(mapping(field).get("description") or ""))
        for name, field in mapping(body.get("properties")).items()
    ]
    answers = mapping(item.get("responses"))
    good = {status: mapping(answer) for status, answer in answers.items() if status.startswith("2")}
    name, answer = _named(_content(next(iter(good.values()), {})), schemas)
    text = str(item.get("description") or item.get("summary") or "")
    return Operation(method, path, text, tuple(inputs), name, tuple(mapping(answer.get("properties"))), tuple(good))


def _content(part: Mapping[str, object]) -> Mapping[str, object]:
    """Return the schema of the JSON in a body or an answer; empty without one."""
    return mapping(mapping(mapping(part.get("content")).get("application/json")).get("schema"))


def _named(schema: Mapping[str, object], schemas: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return the name and the content of a schema, also of one that it refers to."""
    name = str(schema.get("$ref") or "").rpartition("/")[2]
    return (name, mapping(schemas.get(name))) if name else ("", schema)


def _form(schema: Mapping[str, object]) -> str:
    """Return the form of a value in words: `text (at most 54)`, `integer`, `list of text`."""
    choices = [mapping(one) for key in ("oneOf", "anyOf") for one in listing(schema.get(key))]
    if choices:
        return " or ".join(dict.fromkeys(map(_form, choices)))
    if schema.get("enum"):
        return ", ".join(map(str, listing(schema["enum"])))
    if reference := str(schema.get("$ref") or ""):
        return reference.rpartition("/")[2]
    kind = str(schema.get("type") or "any value")
    names = {"string": "text", "array": "list", "object": "mapping"}
    items = mapping(schema.get("items"))
    form = f"{names.get(kind, kind)} of {_form(items)}" if items else names.get(kind, kind)
    most = schema.get("maxLength", schema.get("maximum"))
    return f"{form} (at most {most:,})" if isinstance(most, int) else form
