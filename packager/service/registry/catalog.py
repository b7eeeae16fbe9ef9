"""Checks templates and definitions, and reads stored ones. Tests: service/api/test_registry.py."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.values import Json, as_plain, convert, replace
from packager.service.access.permissions import least_strict
from packager.service.failures import Complaint, Failure, counted, of_problem
from packager.service.registry import definitions, template_values
from packager.service.registry.bodies import DefinitionBody, NamedDefinition, TemplateBody
from packager.service.store.models import StoredDefinition, StoredTemplate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.service.access.permissions import Project
    from packager.service.registry.definitions import Definition
    from packager.service.registry.policy import Accepted, Site
    from packager.service.registry.rendering import Renderer
    from packager.service.store.store import Store


_OF_GLOBAL = {
    "release": "Release of job",
    "taskDef": "Name of task definition",
    "application": "Application of job",
    "creator": "Job's creator",
}
_OF_SERVICE = "Automatically build in Restful API"


class Catalog:
    """Checks the templates and definitions of a server, with the settings of its administrator."""

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

    def add_bundled(self) -> None:
        """Register the bundled templates whose names have no revision yet, not even a removed one."""
        for body in templates():
            if not self.revisions.all(StoredTemplate, body.name):
                self.revisions.add(self.template(body, "mlpack"))

    def template(self, body: TemplateBody, author: str) -> StoredTemplate:
        """Return a checked template for the database, with the values that it reads. Raises Failure."""
        problems, places = self.renderer.check_with_values(body.template)
        if complaints := [of_problem(problem, "template") for problem in problems]:
            raise Failure("invalid-template", f"{counted(complaints)} in the template", complaints)
        content = {**as_plain(body), "required_values": _required_values(places)}
        return StoredTemplate(name=body.name, body=jsonio.compact(content), author=author)

    def users(self, body: TemplateBody) -> dict[str, list[str]]:
        """Return the problems of each definition over a template with its example, by name."""
        problems: dict[str, list[str]] = {}
        for row in self.revisions.current(StoredDefinition, template=body.name):
            tried = definitions.trial(read_definition(row), body.template, self.renderer, self.site(row.project))
            problems[row.name] = [
                f"{item.detail}; {item.hint}" if item.hint else item.detail for item in tried.complaints
            ]
        return problems

    def definition(self, body: DefinitionBody, author: str) -> tuple[StoredDefinition, Accepted]:
        """Return a checked definition for the database, and the objects of its example. Raises Failure."""
        body = replace(body, creator=body.creator or author)
        definition, complaints = definitions.read(body)
        template = self.revisions.find(StoredTemplate, body.task_template_name)
        if template is None:
            message = f"template {body.task_template_name!r} not found"
            complaints.append(Complaint("/task_template_name", message))
        if definition is None or template is None:
            raise Failure("invalid-definition", f"{counted(complaints)} in the definition", complaints)
        accepted = definitions.trial(definition, template_text(template), self.renderer, self.site(body.project))
        if accepted.complaints:
            raise Failure("invalid-definition", "the example cannot be turned into objects", accepted.complaints)
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
        definition, template = read_definition(row), template_text(self.revisions.get(StoredTemplate, row.template))
        request = definitions.example_request(definition)
        return [
            f"jobs of {name} are refused: {item.detail}"
            for name in self._projects
            for item in definitions.objects(definition, template, request, self.renderer, self.site(name)).complaints
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
