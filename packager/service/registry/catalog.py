"""Registers templates and definitions: checks and stores them as revisions. Tests: service/api/test_registry.py."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from packager.base import jsonio
from packager.base.values import Value, as_plain, convert, replace
from packager.service.access.projects import least_strict
from packager.service.complaints import Complaint, counted, of_problem
from packager.service.failures import Failure
from packager.service.registry import bundled, definitions, invented
from packager.service.registry.bodies import DefinitionBody, NamedDefinition, TemplateBody
from packager.service.registry.packages.content import PackageObjects, PackageOrigin
from packager.service.registry.packages.reading import RefusedPackageError
from packager.service.store.revisions import PACKAGE, ExistsError, InUseError, MismatchError, is_same
from packager.service.store.rows import StoredDefinition, StoredTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias, TypeVar

    from packager.service.access.projects import Project
    from packager.service.registry.checker import CheckedDefinition
    from packager.service.registry.definitions import Definition
    from packager.service.registry.packages.content import PackageBody
    from packager.service.registry.packages.reading import PackageReader
    from packager.service.registry.policy import Accepted, Site
    from packager.service.registry.rendering import Renderer
    from packager.service.store.store import Store

    Stored = TypeVar("Stored", bound=StoredTemplate)
    Check: TypeAlias = Callable[[DefinitionBody, str | None, Site], CheckedDefinition]


class ObjectSource(Value, frozen=True):
    """The source of the objects of a definition's jobs: a revision of a template, or a package.

    Attributes:
        name: The name of the source in the database.
        revision: The revision of the source.
        content: The text of the template, or the objects of the package.
    """

    name: str
    revision: int
    content: str | PackageObjects


@dataclass(frozen=True, slots=True)
class _Checked:
    """A definition that can be registered.

    Attributes:
        source: The name of the template or of the rendered package in the database.
        body: The definition, as JSON for the database.
        content: The objects of the package, as JSON for the database; None for a template.
        trial: The objects of the example.
    """

    source: str
    body: str
    content: str | None
    trial: Accepted


Outcome = Literal["created", "changed", "unchanged"]
"""The effect of a registration."""


@dataclass(frozen=True, slots=True)
class TriedTemplate:
    """The effect that the registration of a template would have.

    Attributes:
        outcome: The effect on the template.
        problems: The problems that each definition over the template would have, by name.
        complaints: The problems that its objects have with all values.
    """

    outcome: Outcome
    problems: dict[str, list[str]]
    complaints: list[Complaint]


@dataclass(frozen=True, slots=True)
class TriedDefinition:
    """The effect that the registration of a definition would have.

    Attributes:
        outcome: The effect on the definition.
        trial: The objects of the example.
    """

    outcome: Outcome
    trial: Accepted


class Catalog:
    """The templates and definitions of a server."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        store: Store,
        renderer: Renderer,
        check: Check,
        site: Site,
        projects: Mapping[str, Project],
        packages: PackageReader,
    ) -> None:
        self.store = store
        self.revisions = store.revisions
        self.renderer = renderer
        self._check = check
        self._packages = packages
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
        for body in bundled.templates():
            if self.revisions.template_revisions(body.name):
                continue
            with suppress(ExistsError):  # another replica has been faster
                self.revisions.add_template(body.name, jsonio.compact(as_plain(body)), "mlpack")

    def add_template(self, body: TemplateBody, author: str) -> tuple[StoredTemplate, list[str]]:
        """Register a template, and return it with the problems of its objects with invented values. Raises Failure."""
        self._check_template(body)
        try:
            row = self.revisions.add_template(body.name, jsonio.compact(as_plain(body)), author)
        except ExistsError as error:
            raise Failure("exists", f"the template {error}") from None
        return row, [*map(_text, self._invented(body))]

    def _invented(self, body: TemplateBody) -> list[Complaint]:
        """Return the problems that the objects of a template have with all values."""
        return invented.complaints(body.template, self.renderer, self.site(None))

    def change_template(
        self, name: str, body: TemplateBody, author: str, expected: int | None
    ) -> tuple[StoredTemplate, list[str]]:
        """Register the next revision of a template.

        Returns:
            The row, and a message for each problem of its objects, and of a definition with the new template.

        Raises:
            Failure: The template is missing or invalid, or its revision is not the expected one.
        """
        _check_name(name, body.name)
        self._check_template(body)
        try:
            row = self.revisions.change_template(name, jsonio.compact(as_plain(body)), author, expected)
        except MismatchError as error:
            raise Failure("revision-mismatch", str(error)) from None
        if row is None:
            raise Failure("not-found", f"template {name!r} not found")
        users = self._users(body)
        of_users = [f"definition {user!r}: {problem}" for user, problems in users.items() for problem in problems]
        return row, [*map(_text, self._invented(body)), *of_users]

    def remove_template(self, name: str) -> None:
        """Remove a template. Raises Failure."""
        try:
            if not self.revisions.remove_template(name):
                raise Failure("not-found", f"template {name!r} not found")
        except InUseError as error:
            raise Failure("conflict", str(error)) from None

    def _check_template(self, body: TemplateBody) -> None:
        problems = self.renderer.check(body.template)
        complaints = [of_problem(problem, "template") for problem in problems]
        if complaints:
            raise Failure("invalid-template", f"{counted(complaints)} in the template", complaints)

    def try_template(self, body: TemplateBody) -> TriedTemplate:
        """Check a template, and the examples of the definitions over it, without registering it. Raises Failure."""
        self._check_template(body)
        outcome = _outcome(
            self.revisions.template(body.name),
            StoredTemplate(name=body.name, body=jsonio.compact(as_plain(body)), author=""),
        )
        return TriedTemplate(outcome, self._users(body), self._invented(body))

    def _users(self, body: TemplateBody) -> dict[str, list[str]]:
        """Return the problems of each definition over a template with its example, by name."""
        return {
            row.name: [*map(_text, self._trial(row, body.template))]
            for row in self.revisions.definitions()
            if row.template == body.name
        }

    def _trial(self, row: StoredDefinition, template: str) -> list[Complaint]:
        definition = read_definition(row)
        return definitions.trial(definition, template, self.renderer, self.site(definition.body.project))[1]

    def template(self, name: str, revision: int | None = None) -> StoredTemplate:
        """Return a revision of a template, or the current one. Raises Failure."""
        row = self.revisions.template(name, revision)
        if row is None:
            known = self.revisions.template_revisions(name) if revision is not None else ()
            raise Failure("not-found", _missing("template", name, revision if known else None))
        return row

    def definition(self, name: str, revision: int | None = None) -> StoredDefinition:
        """Return a revision of a definition, or the current one. Raises Failure."""
        row = self.revisions.definition(name, revision)
        if row is None:
            known = self.revisions.definition_revisions(name) if revision is not None else ()
            raise Failure("not-found", _missing("definition", name, revision if known else None))
        return row

    def add_definition(self, body: DefinitionBody, author: str) -> tuple[StoredDefinition, Accepted]:
        """Register a definition under its final name, and return it with the objects of its example. Raises Failure."""
        body = _with_author(replace(body, name=definitions.final_name(body)), author)
        checked = self._check_definition(body)
        try:
            row = self.revisions.add_definition(body.name, checked.source, checked.body, author, checked.content)
        except ExistsError as error:
            raise Failure("exists", f"the definition {error}") from None
        return row, checked.trial

    def try_definition(self, body: DefinitionBody, author: str) -> TriedDefinition:
        """Check a definition without registering it. Raises Failure."""
        checked = self._check_definition(_with_author(body, author))
        new = StoredDefinition(name=body.name, template=checked.source, body=checked.body, author=author)
        return TriedDefinition(_outcome(self.revisions.definition(body.name), new), checked.trial)

    def change_definition(
        self, name: str, body: DefinitionBody, author: str, expected: int | None
    ) -> tuple[StoredDefinition, Accepted]:
        """Register the next revision of a definition, and return it with the objects of its example. Raises Failure."""
        _check_name(name, body.name)
        body = _with_author(body, author)
        checked = self._check_definition(body)
        new = StoredDefinition(name=name, template=checked.source, body=checked.body, author=author)
        try:
            row = self.revisions.change_definition(new, checked.content, expected)
        except MismatchError as error:
            raise Failure("revision-mismatch", str(error)) from None
        if row is None:
            raise Failure("not-found", f"definition {name!r} not found")
        return row, checked.trial

    def remove_definition(self, name: str) -> None:
        """Remove a definition. Raises Failure."""
        if not self.revisions.remove_definition(name):
            raise Failure("not-found", f"definition {name!r} not found")

    def _check_definition(self, body: DefinitionBody) -> _Checked:
        if body.package:
            return self._check_package(body, body.package)
        template = self.revisions.template(body.task_template_name) if body.task_template_name is not None else None
        text = template_text(template) if template else None
        checked = self._check(body, text, self.site(body.project))
        complaints = [*checked.complaints]
        if template is None and body.task_template_name is not None:
            message = f"template {body.task_template_name!r} not found"
            complaints.append(Complaint("/task_template_name", message))
        if complaints or template is None:
            raise _invalid([*complaints, *checked.refusals])
        if checked.refusals:
            raise _unusable(checked.refusals)
        return _Checked(template.name, jsonio.compact(as_plain(body)), None, checked.accepted)

    def _check_package(self, body: DefinitionBody, named: PackageBody) -> _Checked:
        """Read the package of a definition, and check the definition. Raises Failure."""
        _, complaints = definitions.read(body)
        try:
            package = self._packages.read(named, body.project)
        except RefusedPackageError as error:
            raise _invalid([*complaints, *error.complaints]) from None
        definition, complaints = definitions.read(body, package.origin)
        if definition is None:
            raise _invalid(complaints)
        trial = self._tried(definition, package.objects)
        content = jsonio.compact(as_plain(package.objects))
        stored = jsonio.compact({**as_plain(body), "origin": as_plain(package.origin)})
        return _Checked(package_name(package.origin, content), stored, content, trial)

    def _tried(self, definition: Definition, source: str | PackageObjects) -> Accepted:
        trial, complaints = definitions.trial(definition, source, self.renderer, self.site(definition.body.project))
        if complaints:
            raise _unusable(complaints)
        return trial

    def source(self, row: StoredDefinition, revision: int | None = None) -> ObjectSource:
        """Return the package or template of a definition's jobs: a revision of the template, or the current one.

        Raises:
            Failure: The template or its revision does not exist.
        """
        package = self.revisions.package(row.template)
        if package is not None:
            return ObjectSource(package.name, package.revision, _objects(package.body))
        template = self.template(row.template, revision)
        return ObjectSource(template.name, template.revision, template_text(template))


def _text(complaint: Complaint) -> str:
    return f"{complaint.detail}; {complaint.hint}" if complaint.hint else complaint.detail


def _missing(what: str, name: str, revision: int | None) -> str:
    return f"{what} {name!r} not found" if revision is None else f"revision {revision} of {what} {name!r} not found"


def _outcome(stored: Stored | None, new: Stored) -> Outcome:
    if stored is None:
        return "created"
    return "unchanged" if is_same(stored, new) else "changed"


def _invalid(complaints: Sequence[Complaint]) -> Failure:
    return Failure("invalid-definition", f"{counted(complaints)} in the definition", complaints)


def _unusable(complaints: Sequence[Complaint]) -> Failure:
    return Failure("invalid-definition", "the example cannot be turned into objects", complaints)


def package_name(origin: PackageOrigin, content: str) -> str:
    """Return the name of a rendered package in the database, which is unique for its content."""
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f"{PACKAGE}{origin.name}:{origin.overlay}:{origin.digest}:{digest}"


class _Stored(NamedDefinition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition in the database, whose package was read."""

    origin: PackageOrigin | None = None


def _with_author(body: DefinitionBody, author: str) -> DefinitionBody:
    return replace(body, creator=body.creator or author)


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
    stored = convert(json.loads(body), _Stored)
    definition, complaints = definitions.read(stored, stored.origin)
    assert definition is not None, complaints
    return definition


@lru_cache(maxsize=32)
def _objects(body: str) -> PackageObjects:
    return convert(json.loads(body), PackageObjects)
