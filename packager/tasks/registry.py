"""Registers templates and definitions at a task service, and lists them. Tests: cli/test_task.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from packager.base import rest, yamlio
from packager.base.errors import UsageError
from packager.base.names import is_label_value
from packager.base.problems import show
from packager.base.values import Value
from packager.tasks.requests import checked_name, no_task_service, pointer_steps, refusal, send

if TYPE_CHECKING:
    from packager.base.problems import Problem
    from packager.base.rest import RestServer

Kind = Literal["templates", "definitions"]
Outcome = Literal["created", "changed", "unchanged"]

_MADE_BY_SERVER = ("revision", "created", "author", "required_values", "warnings")
"""The keys that the server adds to its response; they are removed, so that the output of show can be applied."""


class Registration(Value, frozen=True):
    """A template or definition in a file."""

    name: str  # the name of the template or definition
    content: dict[str, Any]  # the template or definition with all its keys
    document: yamlio.Document  # the document in the file, with its lines

    def problem(self, pointer: str, message: str, hint: str | None) -> Problem:
        """Return a problem with the value at a JSON pointer, at its line."""
        shown = f"{pointer}: {message}" if pointer else message
        return self.document.problem(tuple(pointer_steps(pointer)), shown, hint=hint)


class Registered(Value, frozen=True):
    """The result of registering a template or definition."""

    name: str  # the name of the template or definition
    outcome: Outcome  # the change that was made, or would be made
    answer: dict[str, Any]  # the server's response, which `-o json` prints
    warnings: tuple[str, ...] = ()  # a warning about each resource that the cluster lacks
    problems: tuple[str, ...] = ()  # the definitions of the template whose examples fail, each with the reasons


def registrations(kind: Kind, file: tuple[bytes, str]) -> list[Registration]:
    """Return the templates or definitions in a file: one for each YAML document or JSON object."""
    documents, problems = yamlio.load_all(*file)
    filled = [document for document in documents if not document.is_empty and document.data is not None]
    for document in filled if not problems else ():
        if not isinstance(document.data, dict):
            problems.append(document.problem((), f"expected a mapping, found {show(document.data)}"))
        elif "name" not in document.data:
            problems.append(document.problem((), "`name` is missing"))
        elif not isinstance(document.data["name"], str) or not is_label_value(document.data["name"]):
            message = f"expected a name of letters, digits and '-_.', found {show(document.data['name'])}"
            problems.append(document.problem(("name",), message))
    if problems:
        raise UsageError(f"the {kind} are not valid", problems=problems)
    if not filled:
        raise UsageError(f"{file[1]} has no {kind}")
    return [
        Registration(
            document.data["name"],
            {key: value for key, value in document.data.items() if key not in _MADE_BY_SERVER},
            document,
        )
        for document in filled
    ]


def registered(server: RestServer, kind: Kind, name: str | None = None, revision: int | None = None) -> Any:
    """Return the registered templates or definitions: all, or the one with this name. Raises ClusterError."""
    steps = ["v1", kind]
    if name is not None:
        steps.append(checked_name(name))
        steps += [] if revision is None else ["revisions", str(revision)]
        return send(server, "GET", rest.path(*steps))
    items = send(server, "GET", rest.path(*steps)).get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise no_task_service(server)
    return items


def schema(server: RestServer, definition: str) -> dict[str, Any]:
    """Return the JSON Schema of the values that a definition takes. Raises ClusterError."""
    return send(server, "GET", rest.path("v1", "definitions", checked_name(definition), "schema"))


def apply(server: RestServer, kind: Kind, source: Registration) -> Registered:
    """Register a template or definition: for the first time, or as the next revision if it has changed."""
    where = rest.path("v1", kind, source.name)
    present = rest.ask(server, "GET", where)
    if present.status == 404:
        answer = send(server, "POST", rest.path("v1", kind), source.content, source.problem)
        return Registered(source.name, "created", answer, _warnings(answer))
    if not present.is_ok:
        raise refusal(server, present)
    revision = present.body.get("revision") if isinstance(present.body, dict) else None
    if not isinstance(revision, int):
        raise no_task_service(server)
    answer = send(server, "PUT", where, source.content, source.problem, {"If-Match": f'"{revision}"'})
    outcome: Outcome = "unchanged" if answer.get("revision") == revision else "changed"
    return Registered(source.name, outcome, answer, _warnings(answer))


def trial(server: RestServer, kind: Kind, source: Registration) -> Registered:
    """Return the result that registering would have, after all checks. Raises ClusterError."""
    where = rest.path("v1", kind, dry_run="true")
    answer = send(server, "POST", where, source.content, source.problem)
    outcome, users = answer.get("outcome"), answer.get("definitions", {})
    if outcome not in ("created", "changed", "unchanged") or not isinstance(users, dict):
        raise no_task_service(server)
    problems = tuple(f"{name}: {problem}" for name, listed in users.items() for problem in listed)
    return Registered(source.name, outcome, answer, _warnings(answer), problems)


def _warnings(answer: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, answer.get("warnings") or ()))


def delete(server: RestServer, kind: Kind, name: str) -> None:
    """Remove a definition, or a template that no definition uses; jobs are kept. Raises ClusterError."""
    send(server, "DELETE", rest.path("v1", kind, checked_name(name)))
