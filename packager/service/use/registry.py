"""The use cases of templates and definitions: list, register, try, change them. Tests: service/api/test_registry.py."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from packager.base.values import Value, as_plain, convert, replace
from packager.service.access import permissions, tokens
from packager.service.failures import Complaint, Failure
from packager.service.jobs import apply
from packager.service.registry.bodies import DefinitionBody, TemplateBody
from packager.service.registry.catalog import read_definition
from packager.service.registry.definitions import final_name
from packager.service.store.models import StoredDefinition, StoredTemplate, as_text
from packager.service.store.revisions import is_same, not_found
from packager.service.use import answers
from packager.service.use.answers import (
    DefinitionTrial,
    Job,
    NewToken,
    Outcome,
    Page,
    ProjectLimits,
    ProjectUse,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateTrial,
    Token,
)
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packager.service.access.permissions import Project
    from packager.service.access.tokens import Caller
    from packager.service.jobs.make import Tasks
    from packager.service.registry.bodies import TokenBody
    from packager.service.registry.definitions import Definition
    from packager.service.store.store import Store


Body = TypeVar("Body", TemplateBody, DefinitionBody)
Row = TypeVar("Row", StoredTemplate, StoredDefinition)
Answer = TypeVar("Answer", RegisteredTemplate, RegisteredDefinition)


class Registry(ABC, Generic[Body, Row, Answer]):
    """The use cases of templates, or of definitions: each has a name and revisions.

    Each raises Failure if the caller has no permission, or the object was not found or is not visible.
    """

    row: type[Row]
    answer: type[Answer]

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._catalog = tasks.catalog
        self._revisions = tasks.catalog.revisions

    @abstractmethod
    def check_change(self, caller: Caller, row: Row | None = None) -> None:
        """Raise Failure unless a caller may register objects, or change this one."""

    @abstractmethod
    async def _placed(self, caller: Caller, body: Body, before: Row | None) -> Body:
        """Return a body as it is registered, or as the next revision. Raises Failure."""

    @abstractmethod
    def _checked(self, body: Body, author: str) -> tuple[Row, list[str]]:
        """Return the row of an object, and the warnings about it. Raises Failure."""

    async def read(self, caller: Caller) -> Page[Answer]:
        """Return the current revision of each object that the caller may see."""
        permissions.check_role(caller, "viewer")
        projects = permissions.projects_of(caller, "viewer")

        def page() -> Page[Answer]:  # many of them take long to parse
            return Page(items=[self._answer(row) for row in self._revisions.current(self.row, projects)])

        return await self._tasks.work.run(Owner(caller.key), page)

    async def get(self, caller: Caller, name: str, revision: int | None = None) -> Answer:
        """Return a revision of an object, or the current one."""
        return self._answer(await self._visible(caller, name, revision))

    async def revisions(self, caller: Caller, name: str) -> Page[Answer]:
        """Return all revisions of an object, the newest first."""
        permissions.check_role(caller, "viewer")
        rows = await asyncio.to_thread(self._revisions.all, self.row, name)
        if not rows or not permissions.sees(caller, rows[0]):
            raise not_found(self.row, name)
        return Page(items=[self._answer(row) for row in rows if permissions.sees(caller, row)])

    async def add(self, caller: Caller, body: Body) -> Answer:
        """Register an object."""
        self.check_change(caller)
        return await self._registered(caller, await self._placed(caller, body, None), self._revisions.add)

    async def change(self, caller: Caller, name: str, body: Body, expected: int | None) -> Answer:
        """Register the next revision of an object whose current revision is `expected`; None for any revision."""
        before = await self._changeable(caller, name)
        body = await self._placed(caller, body, before)
        if name != body.name:
            complaint = Complaint("/name", f"expected {name!r}, as in the path, found {body.name!r}")
            raise Failure("invalid-body", "a revision has the name of what it revises", [complaint])
        return await self._registered(caller, body, lambda row: self._revisions.change(row, expected))

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove an object; jobs that were made with it stay."""
        await self._changeable(caller, name)
        await asyncio.to_thread(self._revisions.remove, self.row, name)

    async def _registered(self, caller: Caller, body: Body, store: Callable[[Row], Row]) -> Answer:
        def register() -> Answer:
            row, warnings = self._checked(body, caller.name)
            return self._answer(store(row), warnings)

        return await self._tasks.work.run(Owner(caller.key), register)

    async def _visible(self, caller: Caller, name: str, revision: int | None = None) -> Row:
        permissions.check_role(caller, "viewer")
        row = await asyncio.to_thread(self._revisions.get, self.row, name)  # the newest revision decides on the project
        if permissions.sees(caller, row) and revision is not None:
            row = await asyncio.to_thread(self._revisions.get, self.row, name, revision)
        if not permissions.sees(caller, row):
            raise not_found(self.row, name)
        return row

    async def _changeable(self, caller: Caller, name: str) -> Row:
        self.check_change(caller)
        row = await self._visible(caller, name)
        self.check_change(caller, row)
        return row

    def _answer(self, row: Row, warnings: Sequence[str] = ()) -> Answer:
        own = {"revision": row.revision, "created": row.created, "author": row.author, "warnings": [*warnings]}
        return convert({**json.loads(row.body), **own}, self.answer)

    def _outcome(self, new: Row) -> Outcome:
        """Return the effect of registering an object."""
        stored = self._revisions.find(self.row, new.name)
        return "created" if stored is None else "unchanged" if is_same(stored, new) else "changed"


class TaskTemplates(Registry[TemplateBody, StoredTemplate, RegisteredTemplate]):
    """The use cases of templates: all callers see templates, and admins of all projects change templates."""

    row = StoredTemplate
    answer = RegisteredTemplate

    def check_change(self, caller: Caller, row: StoredTemplate | None = None) -> None:  # noqa: ARG002 - all are alike
        """Raise Failure unless a caller is an admin of all projects."""
        permissions.check_admin(caller, None)

    async def _placed(self, caller: Caller, body: TemplateBody, before: StoredTemplate | None) -> TemplateBody:  # noqa: ARG002
        return body

    def _checked(self, body: TemplateBody, author: str) -> tuple[StoredTemplate, list[str]]:
        row, users = self._catalog.template(body, author), self._catalog.users(body)
        return row, [f"definition {user!r}: {problem}" for user, problems in users.items() for problem in problems]

    async def trial(self, caller: Caller, body: TemplateBody) -> TemplateTrial:
        """Return the outcome of registering a template, without registering it."""
        self.check_change(caller)

        def tried() -> TemplateTrial:
            outcome = self._outcome(self._catalog.template(body, ""))
            return TemplateTrial(outcome=outcome, definitions=self._catalog.users(body))

        return await self._tasks.work.run(Owner(caller.key), tried)


class TaskDefinitions(Registry[DefinitionBody, StoredDefinition, RegisteredDefinition]):
    """The use cases of definitions: a definition of a project is visible and used in that project only."""

    row = StoredDefinition
    answer = RegisteredDefinition

    def check_change(self, caller: Caller, row: StoredDefinition | None = None) -> None:
        """Raise Failure unless a caller may register definitions, or change this one."""
        permissions.check_role(caller, "developer")
        if row is not None and not caller.may("developer", row.project):
            of = f"the project {row.project!r}" if row.project else "all projects"
            raise Failure("forbidden", f"expected the role developer in {of}, to which the definition belongs")

    async def usable(self, caller: Caller, name: str) -> Definition:
        """Return the current revision of a definition, parsed for making jobs."""
        return await asyncio.to_thread(read_definition, await self._visible(caller, name))

    async def trial(self, caller: Caller, body: DefinitionBody) -> DefinitionTrial:
        """Return the outcome of registering a definition, also as the next revision, without registering it."""
        self.check_change(caller)
        before = await asyncio.to_thread(self._revisions.find, StoredDefinition, body.name)
        seen = before if before is not None and permissions.sees(caller, before) else None
        body = await self._named(caller, body, body.project or (seen.project if seen else None))
        if before is not None:
            self.check_change(caller, before)

        def tried() -> DefinitionTrial:
            row, accepted = self._catalog.definition(body, caller.name)
            manifests, warnings = apply.redacted(accepted.objects), self._tasks.warnings(row, accepted)
            return DefinitionTrial(outcome=self._outcome(row), manifests=manifests, warnings=warnings)

        return await self._tasks.work.run(Owner(caller.key), tried)

    def _checked(self, body: DefinitionBody, author: str) -> tuple[StoredDefinition, list[str]]:
        row, accepted = self._catalog.definition(body, author)
        return row, self._tasks.warnings(row, accepted)

    async def _placed(self, caller: Caller, body: DefinitionBody, before: StoredDefinition | None) -> DefinitionBody:
        """Return a definition with its project, which must have room for it, and with its final name."""
        body = await self._named(caller, body, body.project or (before.project if before else None))
        if body.project is not None:
            await self._tasks.check_size(body.project)
        return body if before else replace(body, name=final_name(body))

    async def _named(self, caller: Caller, body: DefinitionBody, project: str | None) -> DefinitionBody:
        """Return a definition with its project, whose name and a dot must be the start of the definition's name.

        So a taken name does not reveal definitions of other projects.
        """
        body = replace(body, project=permissions.project_of_definition(caller, project, self._tasks.projects))
        if body.project is None or body.name.startswith(f"{body.project}."):
            return body
        expected = f"expected a name that begins with '{body.project}.', as the definition belongs to that project"
        complaints = [Complaint("/name", expected, f"name: {body.project}.{body.name}")]
        try:
            await self._tasks.work.run(Owner(caller.key), lambda: self._catalog.definition(body, caller.name))
        except Failure as failure:
            if failure.kind not in ("invalid-body", "invalid-definition"):
                raise
            complaints += failure.complaints
        raise Failure("invalid-body", "the name is not one of the project", complaints)


_DAY = timedelta(days=1)
_SHOWN = 6


class Overview(Value, frozen=True):
    """The state of all projects of a caller."""

    projects: tuple[tuple[ProjectUse, int], ...]  # each with the number of jobs that have failed in the last 24 hours
    waiting: tuple[Job, ...]  # the jobs that have waited longest
    failed: tuple[Job, ...]  # the jobs that have failed in the last 24 hours, the last ones first


class Projects:
    """The use cases of projects. Each raises Failure if its caller may not see the project."""

    def __init__(self, store: Store, projects: Mapping[str, Project]) -> None:
        self._store = store
        self._projects = projects

    def read(self, caller: Caller) -> Page[ProjectLimits]:
        """Return the projects in which the caller has a role."""
        return Page(items=[answers.project(self._projects[name]) for name in self.names(caller, "viewer")])

    def names(self, caller: Caller, role: str) -> list[str]:
        """Return the names of the projects in which the caller has a role."""
        permissions.check_role(caller, "viewer")
        return [name for name in self._projects if caller.may(role, name)]

    async def overview(self, caller: Caller) -> Overview:
        """Return the jobs that run, wait, and have failed in the last 24 hours, in the projects of the caller."""
        names = self.names(caller, "viewer")
        return await asyncio.to_thread(self._overview, caller, names, as_text(datetime.now(UTC) - _DAY))

    def _overview(self, caller: Caller, names: list[str], since: str) -> Overview:
        failures, usages = self._store.failures(names, since), self._store.usage()
        return Overview(
            projects=tuple(
                (answers.project_use(self._projects[name], usages), failures.get(name, 0)) for name in names
            ),
            waiting=tuple(answers.jobs(caller, self._store.waiting(names, _SHOWN), self._store, self._projects)),
            failed=tuple(answers.job(caller, job) for job in self._store.failed(names, since, _SHOWN)),
        )

    async def use(self, caller: Caller, project: str) -> ProjectUse:
        """Return the current jobs and GPUs of a project, and its limits."""
        if project not in self.names(caller, "viewer"):
            raise Failure("not-found", f"project {project!r} not found")
        return answers.project_use(self._projects[project], await asyncio.to_thread(self._store.usage))


class Tokens:
    """The use cases of tokens: an admin of a project manages its tokens. Each raises Failure for other callers."""

    def __init__(self, store: Store, projects: Mapping[str, Project], most: int) -> None:
        self._store = store
        self._projects = projects
        self._most = most

    async def read(self, caller: Caller) -> Page[Token]:
        """Return the tokens, without their texts."""
        permissions.check_role(caller, "admin")
        rows = await asyncio.to_thread(self._store.tokens.all, permissions.projects_of(caller, "admin"))
        return Page(items=[answers.copied(Token, row) for row in rows])

    async def add(self, caller: Caller, body: TokenBody) -> NewToken:
        """Create a token; its text is returned once."""
        permissions.check_role(caller, "admin")
        if body.project is not None:
            permissions.check_knows_project(caller, body.project, self._projects)
        permissions.check_admin(caller, body.project)
        made = partial(tokens.create, self._store, body.name, body.role, body.days, body.project, most=self._most)
        row, text = await asyncio.to_thread(made)
        return NewToken(**as_plain(answers.copied(Token, row)), token=text)

    async def remove(self, caller: Caller, identifier: str) -> None:
        """Remove a token; requests with it are refused from then on. Raises Failure if not found."""
        permissions.check_role(caller, "admin")
        visible = permissions.projects_of(caller, "admin")
        if not await asyncio.to_thread(self._store.tokens.remove, identifier, visible):
            raise Failure("not-found", f"token {identifier!r} not found")
