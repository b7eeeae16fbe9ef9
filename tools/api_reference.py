"""Writes the reference of the REST API, in Markdown, from its OpenAPI document: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.service.api import app
from packager.service.api.document import document
from packager.service.config import ServerConfig
from packager.service.demo.cluster import SimulatedCluster
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTRODUCTION = """\
# The REST API

<!-- Made by `make docs` from the routes in packager/service/api: edit those. -->

A server answers the same at `/openapi.json` (OpenAPI 3.1) and its page links to it. [What the operations
mean](service/api.md): roles, projects, limits, statuses and errors.
"""


def reference() -> str:
    """Return the whole document."""
    with workfolder.temporary() as folder:
        server = Server(
            ServerConfig(), Store(Path(folder) / "x.db"), SimulatedCluster(), Sealer(bytes(32)), emit=lambda _line: None
        )
        try:
            items = operations(document(app.make(server)))
        finally:
            server.close()
    return "\n".join([_INTRODUCTION, *map(_section, items)])


def _section(item: Operation) -> str:
    lines = [f"## {item.method} {item.path}", "", *item.text.splitlines(), ""]
    if item.inputs:
        lines += ["| name | in | form | meaning |", "|---|---|---|---|"]
    for entry in item.inputs:
        place = f"{entry.place}, required" if entry.required else entry.place
        lines.append(" | ".join((f"| `{entry.name}`", place, entry.form, f"{entry.text or '-'} |")))
    kind = f": {item.answer}" if item.answer else ""
    fields = f" with {', '.join(f'`{field}`' for field in item.fields)}" if item.fields else ""
    return "\n".join(
        [*lines, *([""] if item.inputs else []), f"Answer {' or '.join(item.statuses)}{kind}{fields}.", ""]
    )


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


if __name__ == "__main__":
    sys.stdout.write(reference())
