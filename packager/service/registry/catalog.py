"""Registers templates and definitions: checks and stores them as revisions. Tests: service/api/test_registry.py."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from packager.base import jsonio
from packager.base.values import Json, Value, as_plain, convert, replace
from packager.service.access.permissions import least_strict
from packager.service.failures import Complaint, Failure, counted, of_problem
from packager.service.registry import definitions, template_values
from packager.service.registry.bodies import DefinitionBody, NamedDefinition, TemplateBody
from packager.service.store.models import StoredDefinition, StoredTemplate
from packager.service.store.revisions import ExistsError, InUseError, MismatchError, is_same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from packager.service.access.permissions import Project
    from packager.service.registry.definitions import Definition
    from packager.service.registry.policy import Accepted, Site
    from packager.service.registry.rendering import Renderer
    from packager.service.store.store import Store

    Stored = TypeVar("Stored", bound=StoredTemplate)


Outcome = Literal["created", "changed", "unchanged"]
"""The effect of a registration."""

_OF_GLOBAL = {
    "release": "Release of job",
    "taskDef": "Name of task definition",
    "application": "Application of job",
    "creator": "Job's creator",
}
_OF_SERVICE = "Automatically build in Restful API"


class TriedTemplate(Value, frozen=True):
    """The effect that the registration of a template would have."""

    outcome: Outcome
    problems: dict[str, list[str]]  # those that each definition over the template would have, by name


class TriedDefinition(Value, frozen=True):
    """The effect that the registration of a definition would have, and the objects of its example."""

    outcome: Outcome
    row: StoredDefinition
    trial: Accepted


class Catalog:
    """The templates and definitions of a server."""

    def __init__(self, store: Store, renderer: Renderer, site: Site, projects: Mapping[str, Project]) -> None:
        self.store = store
        self.revisions = store.revisions
        self.renderer = renderer
        self._site = site
        self._projects = projects

    def site(self, project: str | None) -> Site:
        """Return the settings for jobs of a project; for None, the settings that at least one project allows."""
        known = self._projects.get(project or "")
        if known:
            return replace(self._site, level=known.level, project=project, allowed=known.allowed)
        level = least_strict(self._projects.values())
        allowed = frozenset(word for one in self._projects.values() for word in one.allowed)
        return replace(self._site, level=level, project=project, allowed=allowed)

    # templates

    def add_bundled(self) -> None:
        """Register the bundled templates whose names have no revision yet, not even a removed one."""
        for body in templates():
            if not self.revisions.all(StoredTemplate, body.name):
                with suppress(ExistsError):
                    self.revisions.add(self._template(body, "mlpack"))

    def _template(self, body: TemplateBody, author: str) -> StoredTemplate:
        """Return a checked template for the database, with the values that it reads. Raises Failure."""
        problems, places = self.renderer.check_with_values(body.template)
        if complaints := [of_problem(problem, "template") for problem in problems]:
            raise Failure("invalid-template", f"{counted(complaints)} in the template", complaints)
        content = {**as_plain(body), "required_values": _required_values(places)}
        return StoredTemplate(name=body.name, body=jsonio.compact(content), author=author)

    def add_template(self, body: TemplateBody, author: str) -> StoredTemplate:
        """Register a template. Raises Failure."""
        try:
            return self.revisions.add(self._template(body, author))
        except ExistsError as error:
            raise Failure("exists", f"the template {error}") from None

    def change_template(
        self, name: str, body: TemplateBody, author: str, expected: int | None
    ) -> tuple[StoredTemplate, list[str]]:
        """Register the next revision of a template, and return it with a message for each problem of a definition.

        Raises Failure.
        """
        _check_name(name, body.name)
        try:
            row = self.revisions.change(self._template(body, author), expected)
        except MismatchError as error:
            raise Failure("revision-mismatch", str(error)) from None
        if row is None:
            raise Failure("not-found", f"template {name!r} not found")
        users = self._users(body)
        return row, [f"definition {user!r}: {problem}" for user, problems in users.items() for problem in problems]

    def try_template(self, body: TemplateBody) -> TriedTemplate:
        """Check a template, and the examples of the definitions over it, without registering it. Raises Failure."""
        return TriedTemplate(_outcome(self.revisions.template(body.name), self._template(body, "")), self._users(body))

    def _users(self, body: TemplateBody) -> dict[str, list[str]]:
        """Return the problems of each definition over a template with its example, by name."""
        problems: dict[str, list[str]] = {}
        for row in self.revisions.definitions(template=body.name):
            _, complaints = definitions.trial(
                read_definition(row), body.template, self.renderer, self.site(row.project)
            )
            problems[row.name] = [f"{item.detail}; {item.hint}" if item.hint else item.detail for item in complaints]
        return problems

    def remove_template(self, name: str) -> None:
        """Remove a template. Raises Failure."""
        try:
            if not self.revisions.remove_template(name):
                raise Failure("not-found", f"template {name!r} not found")
        except InUseError as error:
            raise Failure("conflict", str(error)) from None

    def template(self, name: str, revision: int | None = None) -> StoredTemplate:
        """Return a revision of a template, or the current one. Raises Failure."""
        row = self.revisions.template(name, revision)
        if row is None:
            known = self.revisions.all(StoredTemplate, name) if revision is not None else ()
            raise Failure("not-found", _missing("template", name, revision if known else None))
        return row

    # definitions

    def definition(self, name: str, revision: int | None = None) -> StoredDefinition:
        """Return a revision of a definition, or the current one. Raises Failure."""
        row = self.revisions.definition(name, revision)
        if row is None:
            known = self.revisions.all(StoredDefinition, name) if revision is not None else ()
            raise Failure("not-found", _missing("definition", name, revision if known else None))
        return row

    def add_definition(self, body: DefinitionBody, author: str) -> tuple[StoredDefinition, Accepted]:
        """Register a definition under its final name, and return it with the objects of its example. Raises Failure."""
        new, trial = self._checked(replace(body, name=definitions.final_name(body)), author)
        try:
            return self.revisions.add(new), trial
        except ExistsError as error:
            raise Failure("exists", f"the definition {error}") from None

    def try_definition(self, body: DefinitionBody, author: str) -> TriedDefinition:
        """Check a definition without registering it. Raises Failure."""
        new, trial = self._checked(body, author)
        return TriedDefinition(_outcome(self.revisions.definition(body.name), new), new, trial)

    def change_definition(
        self, name: str, body: DefinitionBody, author: str, expected: int | None
    ) -> tuple[StoredDefinition, Accepted]:
        """Register the next revision of a definition, and return it with the objects of its example. Raises Failure."""
        _check_name(name, body.name)
        new, trial = self._checked(body, author)
        try:
            row = self.revisions.change(new, expected)
        except MismatchError as error:
            raise Failure("revision-mismatch", str(error)) from None
        if row is None:
            raise Failure("not-found", f"definition {name!r} not found")
        return row, trial

    def remove_definition(self, name: str) -> None:
        """Remove a definition. Raises Failure."""
        if not self.revisions.remove_definition(name):
            raise Failure("not-found", f"definition {name!r} not found")

    def _checked(self, body: DefinitionBody, author: str) -> tuple[StoredDefinition, Accepted]:
        """Return a definition for the database, and the objects of its example. Raises Failure."""
        body = replace(body, creator=body.creator or author)
        definition, complaints = definitions.read(body)
        template = self.revisions.template(body.task_template_name)
        if template is None:
            message = f"template {body.task_template_name!r} not found"
            complaints.append(Complaint("/task_template_name", message))
        if definition is None or template is None:
            raise Failure("invalid-definition", f"{counted(complaints)} in the definition", complaints)
        accepted, complaints = definitions.trial(
            definition, template_text(template), self.renderer, self.site(body.project)
        )
        if complaints:
            raise Failure("invalid-definition", "the example cannot be turned into objects", complaints)
        stored = StoredDefinition(
            name=body.name,
            template=template.name,
            body=jsonio.compact(as_plain(body)),
            author=author,
            project=body.project,
        )
        return stored, accepted

    def refused_in(self, row: StoredDefinition) -> list[str]:
        """Return why some of the projects refuse the objects of a definition's example."""
        definition, template = read_definition(row), template_text(self.template(row.template))
        request = definitions.example_request(definition)
        return [
            f"jobs of {name} are refused: {item.detail}"
            for name in self._projects
            for item in definitions.objects(definition, template, request, self.renderer, self.site(name))[1]
        ]


def _required_values(places: Sequence[tuple[list[str], bool]]) -> dict[str, Json]:
    """Return the values that a template reads, each with its meaning at its place."""
    values: dict[str, Json] = {}
    for place, is_required in places:
        top, text = place[0], "Required" if is_required else "Optional"
        if top == "global":
            text = _OF_GLOBAL.get(place[-1], text)
        elif top == "configs":
            place, text = ["configs"], _OF_SERVICE  # noqa: PLW2901
        elif top == template_values.ALWAYS_SYSTEM:
            text = f"{text}, set by the definition"
        values = template_values.put(values, place, text)
    return values


def _missing(what: str, name: str, revision: int | None) -> str:
    return f"{what} {name!r} not found" if revision is None else f"revision {revision} of {what} {name!r} not found"


def _outcome(stored: Stored | None, new: Stored) -> Outcome:
    if stored is None:
        return "created"
    return "unchanged" if is_same(stored, new) else "changed"


def _check_name(name: str, in_body: str) -> None:
    if name != in_body:
        complaint = Complaint("/name", f"expected {name!r}, as in the path, found {in_body!r}")
        raise Failure("invalid-body", "a revision has the name of what it revises", [complaint])


def template_text(row: StoredTemplate) -> str:
    """Return the text of a template."""
    return str(json.loads(row.body)["template"])


def read_definition(row: StoredDefinition) -> Definition:
    """Return a definition, read from its row."""
    return _read(row.body)


@lru_cache(maxsize=256)
def _read(body: str) -> Definition:
    content = json.loads(body)
    if content.pop("package", None):  # of a server up to 0.2.0
        detail = "the definition is over a package; `mlpack task export` makes a template and a definition of it"
        raise Failure("invalid-definition", detail)
    definition, complaints = definitions.read(convert(content, NamedDefinition))
    assert definition is not None, complaints
    return definition


_FOLDER = Path(__file__).resolve().parent / "templates"

_DESCRIPTIONS = {
    "countdown-task": "Counts down from process.train.number: to try a server with.",
    "non-distributed-task": "One container on one node, with its configs as JSON and a claim for what it writes.",
    "single-gpu-task": "One container with one GPU, with its configs as JSON and a claim for what it writes.",
}


def templates() -> list[TemplateBody]:
    """Return the bundled templates, by name."""
    return [
        TemplateBody(name=name, template=(_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), description=text)
        for name, text in _DESCRIPTIONS.items()
    ]
