"""The use cases of templates and definitions: list, register, try, change them. Tests: service/api/test_registry.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.base.values import Value, as_plain, replace
from packager.service.access import permissions, tokens
from packager.service.failures import Complaint, Failure, over_limit
from packager.service.jobs import apply
from packager.service.registry.catalog import read_definition
from packager.service.store.models import StoredDefinition, StoredTemplate, as_text
from packager.service.store.revisions import TokensFullError
from packager.service.use import answers
from packager.service.use.answers import (
    DefinitionList,
    DefinitionTrial,
    Job,
    NewToken,
    ProjectList,
    ProjectUse,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateList,
    TemplateTrial,
    TokenList,
)
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.service.access.permissions import Project
    from packager.service.access.tokens import Caller
    from packager.service.config import LimitsConfig
    from packager.service.jobs.make import Tasks
    from packager.service.registry.bodies import DefinitionBody, TemplateBody, TokenBody
    from packager.service.registry.catalog import Catalog
    from packager.service.registry.definitions import Definition
    from packager.service.store.models import StoredToken
    from packager.service.store.store import Store
    from packager.service.work import Work


class TaskTemplates:
    """The use cases of templates: all callers see templates, and admins of all projects change templates.

    Each raises Failure if the caller has no permission, or the template was not found.
    """

    def __init__(self, catalog: Catalog, work: Work) -> None:
        self._catalog = catalog
        self._work = work

    async def read(self, caller: Caller) -> TemplateList:
        """Return the current revision of each template."""
        permissions.check_role(caller, "viewer")
        rows = await asyncio.to_thread(self._catalog.revisions.templates)
        return TemplateList(items=[answers.template(row) for row in rows])

    async def template(self, caller: Caller, name: str, revision: int | None = None) -> RegisteredTemplate:
        """Return a revision of a template, or the current one."""
        permissions.check_role(caller, "viewer")
        return answers.template(await asyncio.to_thread(self._catalog.template, name, revision))

    async def revisions(self, caller: Caller, name: str) -> TemplateList:
        """Return all revisions of a template, the newest first."""
        permissions.check_role(caller, "viewer")
        rows = await asyncio.to_thread(self._catalog.revisions.all, StoredTemplate, name)
        if not rows:
            raise Failure("not-found", f"template {name!r} not found")
        return TemplateList(items=[answers.template(row) for row in rows])

    async def add(self, caller: Caller, body: TemplateBody) -> RegisteredTemplate:
        """Register a template."""
        permissions.check_admin(caller, None)
        return answers.template(
            await self._work.run(Owner(caller.key), lambda: self._catalog.add_template(body, caller.name))
        )

    async def trial(self, caller: Caller, body: TemplateBody) -> TemplateTrial:
        """Return the outcome of registering a template, without registering it."""
        permissions.check_admin(caller, None)
        tried = await self._work.run(Owner(caller.key), lambda: self._catalog.try_template(body))
        return TemplateTrial(outcome=tried.outcome, definitions=tried.problems)

    async def change(self, caller: Caller, name: str, body: TemplateBody, expected: int | None) -> RegisteredTemplate:
        """Register the next revision of a template whose current revision is `expected`; None for any revision."""
        permissions.check_admin(caller, None)
        change = self._catalog.change_template
        row, warnings = await self._work.run(Owner(caller.key), lambda: change(name, body, caller.name, expected))
        return answers.template(row, warnings)

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove a template that no definition uses."""
        permissions.check_admin(caller, None)
        await asyncio.to_thread(self._catalog.remove_template, name)


class TaskDefinitions:
    """The use cases of definitions: a definition of a project is visible and used in that project only.

    Each raises Failure if the caller has no permission, or the definition was not found or is not visible.
    """

    def __init__(
        self, catalog: Catalog, tasks: Tasks, projects: Mapping[str, Project], work: Work, limits: LimitsConfig
    ) -> None:
        self._catalog = catalog
        self._tasks = tasks
        self._projects = projects
        self._work = work
        self._limits = limits

    async def read(self, caller: Caller) -> DefinitionList:
        """Return the current revision of each definition that the caller may see."""
        permissions.check_role(caller, "viewer")
        projects = permissions.projects_of(caller, "viewer")

        def listed() -> DefinitionList:  # many definitions take long to parse
            return DefinitionList(
                items=[answers.definition(row) for row in self._catalog.revisions.definitions(projects)]
            )

        return await self._work.run(Owner(caller.key), listed)

    async def definition(self, caller: Caller, name: str, revision: int | None = None) -> RegisteredDefinition:
        """Return a revision of a definition, or the current one."""
        return answers.definition(await self._visible(caller, name, revision))

    async def usable(self, caller: Caller, name: str) -> Definition:
        """Return the current revision of a definition, parsed for making jobs."""
        return await asyncio.to_thread(read_definition, await self._visible(caller, name))

    async def revisions(self, caller: Caller, name: str) -> DefinitionList:
        """Return all revisions of a definition, the newest first."""
        permissions.check_role(caller, "viewer")
        rows = await asyncio.to_thread(self._catalog.revisions.all, StoredDefinition, name)
        if not rows or not permissions.sees_definition(caller, rows[0]):
            raise Failure("not-found", f"definition {name!r} not found")
        visible = [row for row in rows if permissions.sees_definition(caller, row)]
        return DefinitionList(items=[answers.definition(row) for row in visible])

    async def add(self, caller: Caller, body: DefinitionBody) -> RegisteredDefinition:
        """Register a definition, whose example is filled in as a trial."""
        permissions.check_role(caller, "developer")
        body = await self._placed(caller, body, body.project)
        await self._check_room(body.project, is_new=True)
        row, trial = await self._work.run(Owner(caller.key), lambda: self._catalog.add_definition(body, caller.name))
        return answers.definition(row, await self._tasks.warnings(row, trial))

    async def _check_room(self, project: str | None, *, is_new: bool) -> None:
        """Raise Failure if a project has no room for another revision, or for a new definition."""
        if project is None:
            return
        await self._tasks.room.check_size(project)
        count, revisions = await asyncio.to_thread(self._catalog.revisions.count_definitions, project)
        if revisions >= self._limits.project_revisions:
            detail = f"the project {project!r} has {revisions:,} revisions of definitions, also of removed ones"
            raise over_limit("project_revisions", f"{detail}: an admin of the server can raise the limit")
        if is_new and count >= self._limits.project_definitions:
            raise over_limit("project_definitions", f"the project {project!r} has {count:,} definitions: remove some")

    async def trial(self, caller: Caller, body: DefinitionBody) -> DefinitionTrial:
        """Return the outcome of registering a definition, also as the next revision, without registering it."""
        permissions.check_role(caller, "developer")
        asked = body.project
        before = await asyncio.to_thread(self._catalog.revisions.definition, body.name)
        if asked is None and before is not None and permissions.sees_definition(caller, before):
            asked = before.project
        body = await self._placed(caller, body, asked)
        if before is not None:
            permissions.check_changes_definition(caller, before)
        tried = await self._work.run(Owner(caller.key), lambda: self._catalog.try_definition(body, caller.name))
        return DefinitionTrial(
            outcome=tried.outcome,
            manifests=apply.redacted(tried.trial.objects),
            warnings=await self._tasks.warnings(tried.row, tried.trial),
        )

    async def problems(self, caller: Caller, body: DefinitionBody) -> Sequence[Complaint]:
        """Return the problems of a definition, except those of its name."""
        permissions.check_role(caller, "developer")
        try:
            placed = replace(body, project=permissions.project_of_definition(caller, body.project, self._projects))
            await self._work.run(Owner(caller.key), lambda: self._catalog.try_definition(placed, caller.name))
        except Failure as failure:
            if failure.kind not in ("invalid-body", "invalid-definition"):
                raise
            return failure.complaints
        return ()

    async def change(
        self, caller: Caller, name: str, body: DefinitionBody, expected: int | None
    ) -> RegisteredDefinition:
        """Register the next revision of a definition whose current revision is `expected`; None for any revision."""
        before = await self._changeable(caller, name)
        body = await self._placed(caller, body, body.project or before.project)
        await self._check_room(body.project, is_new=False)
        change = self._catalog.change_definition
        row, trial = await self._work.run(Owner(caller.key), lambda: change(name, body, caller.name, expected))
        return answers.definition(row, await self._tasks.warnings(row, trial))

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove a definition; jobs that were made with it stay."""
        await self._changeable(caller, name)
        await asyncio.to_thread(self._catalog.remove_definition, name)

    async def _placed(self, caller: Caller, body: DefinitionBody, project: str | None) -> DefinitionBody:
        """Return a definition with its project, whose name and a dot must be the start of the definition's name.

        So a taken name does not reveal definitions of other projects.
        """
        body = replace(body, project=permissions.project_of_definition(caller, project, self._projects))
        if body.project is None or body.name.startswith(f"{body.project}."):
            return body
        expected = f"expected a name that begins with '{body.project}.', as the definition belongs to that project"
        hint = f"name: {body.project}.{body.name}"
        complaints = [Complaint("/name", expected, hint), *await self.problems(caller, body)]
        raise Failure("invalid-body", "the name is not one of the project", complaints)

    async def _visible(self, caller: Caller, name: str, revision: int | None = None) -> StoredDefinition:
        permissions.check_role(caller, "viewer")
        row = await asyncio.to_thread(self._catalog.definition, name)  # the newest revision decides on the project
        permissions.check_sees_definition(caller, row)
        if revision is not None:
            row = await asyncio.to_thread(self._catalog.definition, name, revision)
            permissions.check_sees_definition(caller, row)
        return row

    async def _changeable(self, caller: Caller, name: str) -> StoredDefinition:
        permissions.check_role(caller, "developer")
        row = await asyncio.to_thread(self._catalog.definition, name)
        permissions.check_changes_definition(caller, row)
        return row


_DAY = timedelta(days=1)
_SHOWN = 6


class ProjectOverview(Value, frozen=True):
    """A project in the overview."""

    use: ProjectUse  # the jobs, the GPUs and the limits of the project
    failed: int  # the number of jobs that have failed in the last 24 hours


class Overview(Value, frozen=True):
    """The state of all projects of a caller."""

    projects: tuple[ProjectOverview, ...]
    waiting: tuple[Job, ...]  # the jobs that have waited longest
    failed: tuple[Job, ...]  # the jobs that have failed in the last 24 hours, the last ones first


class Projects:
    """The use cases of projects. Each raises Failure if its caller may not see the project."""

    def __init__(self, store: Store, projects: Mapping[str, Project]) -> None:
        self._store = store
        self._projects = projects

    def read(self, caller: Caller) -> ProjectList:
        """Return the projects in which the caller has a role."""
        return ProjectList(items=[answers.project(self._projects[name]) for name in self.names(caller, "viewer")])

    def names(self, caller: Caller, role: str) -> list[str]:
        """Return the names of the projects in which the caller has a role."""
        permissions.check_role(caller, "viewer")
        return [name for name in self._projects if caller.may(role, name)]

    async def overview(self, caller: Caller) -> Overview:
        """Return the jobs that run, wait, and have failed in the last 24 hours, in the projects of the caller."""
        names = self.names(caller, "viewer")
        return await asyncio.to_thread(self._overview, caller, names, as_text(datetime.now(UTC) - _DAY))

    def _overview(self, caller: Caller, names: list[str], since: str) -> Overview:
        failures = self._store.failures(names, since)
        uses = [(answers.project_use(self._projects[name], self._store.usage(name)), name) for name in names]
        return Overview(
            projects=tuple(ProjectOverview(use, failures.get(name, 0)) for use, name in uses),
            waiting=tuple(answers.jobs(caller, self._store.waiting(names, _SHOWN), self._store, self._projects)),
            failed=tuple(answers.job(caller, job) for job in self._store.failed(names, since, _SHOWN)),
        )

    async def use(self, caller: Caller, project: str) -> ProjectUse:
        """Return the current jobs and GPUs of a project, and its limits."""
        if project not in self.names(caller, "viewer"):
            raise Failure("not-found", f"project {project!r} not found")
        return answers.project_use(self._projects[project], await asyncio.to_thread(self._store.usage, project))


class Tokens:
    """The use cases of tokens: an admin of a project manages its tokens. Each raises Failure for other callers."""

    def __init__(self, store: Store, projects: Mapping[str, Project], most: int) -> None:
        self._store = store
        self._projects = projects
        self._most = most

    async def read(self, caller: Caller) -> TokenList:
        """Return the tokens, without their texts."""
        permissions.check_role(caller, "admin")
        rows = await asyncio.to_thread(self._store.tokens.all, permissions.projects_of(caller, "admin"))
        return TokenList(items=[answers.token(row) for row in rows])

    async def add(self, caller: Caller, body: TokenBody) -> NewToken:
        """Create a token; its text is returned once."""
        permissions.check_role(caller, "admin")
        if body.project is not None:
            permissions.check_knows_project(caller, body.project, self._projects)
        permissions.check_admin(caller, body.project)
        row, text = await asyncio.to_thread(self._created, body)
        return NewToken(**as_plain(answers.token(row)), token=text)

    def _created(self, body: TokenBody) -> tuple[StoredToken, str]:
        """Store a new token, and return it and its text. Raises Failure."""
        try:
            return tokens.create(self._store, body.name, body.role, body.days, body.project, most=self._most)
        except TokensFullError as error:
            raise over_limit("project_tokens", str(error)) from None

    async def remove(self, caller: Caller, identifier: str) -> None:
        """Remove a token; requests with it are refused from then on. Raises Failure if not found."""
        permissions.check_role(caller, "admin")
        visible = permissions.projects_of(caller, "admin")
        if not await asyncio.to_thread(self._store.tokens.remove, identifier, visible):
            raise Failure("not-found", f"token {identifier!r} not found")
