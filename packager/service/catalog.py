"""Registers templates and definitions: checks them, and stores them as revisions."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from packager.base.values import as_plain, convert, replace
from packager.service import bundled, definitions
from packager.service.bodies import DefinitionBody, TemplateBody
from packager.service.complaints import Complaint, of_problem
from packager.service.failures import Failure
from packager.service.projects import least_strict
from packager.service.store.store import ExistsError, InUseError, MismatchError, as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.definitions import Definition
    from packager.service.policy import Accepted, Site
    from packager.service.projects import Project
    from packager.service.rendering import Renderer
    from packager.service.store.store import Row, Store


class Catalog:
    """The templates and definitions of a server."""

    def __init__(self, store: Store, renderer: Renderer, site: Site, projects: Mapping[str, Project]) -> None:
        self.store = store
        self.renderer = renderer
        self._site = site
        self._projects = projects

    def site(self, project: str | None) -> Site:
        """Return what is decided about the jobs of a project; for None, what at least one project allows."""
        known = self._projects.get(project or "")
        return replace(self._site, level=known.level if known else least_strict(self._projects.values()))

    def add_bundled(self) -> None:
        """Register the bundled templates that no one has registered, or removed, before."""
        for body in bundled.templates():
            if self.store.template_revisions(body.name):
                continue
            with suppress(ExistsError):  # another replica has been faster
                self.store.add_template(body.name, as_json(as_plain(body)), "mlpack")

    def add_template(self, body: TemplateBody, author: str) -> Row:
        """Register a template. Raises Failure."""
        self._check_template(body)
        try:
            return self.store.add_template(body.name, as_json(as_plain(body)), author)
        except ExistsError as error:
            raise Failure("exists", f"the template {error}") from None

    def change_template(self, name: str, body: TemplateBody, author: str, expected: int | None) -> Row:
        """Register the next revision of a template. Raises Failure."""
        _check_name(name, body.name)
        self._check_template(body)
        try:
            row = self.store.change_template(name, as_json(as_plain(body)), author, expected)
        except MismatchError as error:
            raise Failure("revision-mismatch", str(error)) from None
        if row is None:
            raise Failure("not-found", f"template {name!r} not found")
        return row

    def remove_template(self, name: str) -> None:
        """Remove a template. Raises Failure."""
        try:
            if not self.store.remove_template(name):
                raise Failure("not-found", f"template {name!r} not found")
        except InUseError as error:
            raise Failure("conflict", str(error)) from None

    def _check_template(self, body: TemplateBody) -> None:
        problems = self.renderer.check(body.template)
        if problems:
            complaints = [of_problem(problem, "template") for problem in problems]
            raise Failure("invalid-template", f"{len(problems)} problems in the template", complaints)

    def try_template(self, body: TemplateBody) -> dict[str, list[str]]:
        """Return, for each definition over a template, what is wrong with its example. Raises Failure."""
        self._check_template(body)
        return {
            row["name"]: [
                f"{complaint.detail}; {complaint.hint}" if complaint.hint else complaint.detail
                for complaint in self._trial(row, body.template)
            ]
            for row in self.store.definitions()
            if row["template"] == body.name
        }

    def _trial(self, row: Row, template: str) -> list[Complaint]:
        definition = read_definition(row)
        return definitions.trial(definition, template, self.renderer, self.site(definition.body.project))[1]

    def template(self, name: str, revision: int | None = None) -> Row:
        """Return a template. Raises Failure."""
        row = self.store.template(name, revision)
        if row is None:
            raise Failure("not-found", f"template {name!r} not found")
        return row

    def definition(self, name: str, revision: int | None = None) -> Row:
        """Return a definition. Raises Failure."""
        row = self.store.definition(name, revision)
        if row is None:
            raise Failure("not-found", f"definition {name!r} not found")
        return row

    def add_definition(self, body: DefinitionBody, author: str) -> tuple[Row, Accepted]:
        """Register a definition under its final name; return it, and what its example makes. Raises Failure."""
        body = _with_author(convert({**as_plain(body), "name": definitions.final_name(body)}, _Named), author)
        trial = self._check_definition(body)
        try:
            row = self.store.add_definition(body.name, body.task_template_name, as_json(as_plain(body)), author)
        except ExistsError as error:
            raise Failure("exists", f"the definition {error}") from None
        return row, trial

    def try_definition(self, body: DefinitionBody, author: str) -> Accepted:
        """Return what a definition's example makes, without registering it. Raises Failure."""
        return self._check_definition(_with_author(body, author))

    def change_definition(
        self, name: str, body: DefinitionBody, author: str, expected: int | None
    ) -> tuple[Row, Accepted]:
        """Register the next revision of a definition. Raises Failure."""
        _check_name(name, body.name)
        body = _with_author(body, author)
        trial = self._check_definition(body)
        fields = {"name": name, "template": body.task_template_name, "body": as_json(as_plain(body)), "author": author}
        try:
            row = self.store.change_definition(fields, expected)
        except MismatchError as error:
            raise Failure("revision-mismatch", str(error)) from None
        if row is None:
            raise Failure("not-found", f"definition {name!r} not found")
        return row, trial

    def remove_definition(self, name: str) -> None:
        """Remove a definition. Raises Failure."""
        if not self.store.remove_definition(name):
            raise Failure("not-found", f"definition {name!r} not found")

    def _check_definition(self, body: DefinitionBody) -> Accepted:
        definition, complaints = definitions.read(body)
        template = self.store.template(body.task_template_name)
        if template is None:
            message = f"template {body.task_template_name!r} not found"
            complaints.append(Complaint("/task_template_name", message))
        if definition is None or template is None:
            raise Failure("invalid-definition", f"{len(complaints)} problems in the definition", complaints)
        trial, complaints = definitions.trial(
            definition, template_text(template), self.renderer, self.site(body.project)
        )
        if complaints:
            raise Failure("invalid-definition", "the example cannot be turned into objects", complaints)
        return trial


class _Named(DefinitionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition under its final name, which is longer than one that is registered may be."""

    name: str


def _with_author(body: DefinitionBody, author: str) -> DefinitionBody:
    return body if body.creator else convert({**as_plain(body), "creator": author}, _Named)


def _check_name(name: str, in_body: str) -> None:
    if name != in_body:
        complaint = Complaint("/name", f"expected {name!r}, as in the path, found {in_body!r}")
        raise Failure("invalid-body", "a revision has the name of what it revises", [complaint])


def template_text(row: Row) -> str:
    """Return the text of a template."""
    return str(json.loads(row["body"])["template"])


def read_definition(row: Row) -> Definition:
    """Return a registered definition as it is used."""
    return _read(row["body"])


@lru_cache(maxsize=256)
def _read(body: str) -> Definition:
    definition, complaints = definitions.read(convert(json.loads(body), _Named))
    assert definition is not None, complaints
    return definition
