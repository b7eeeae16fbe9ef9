"""The use cases of templates and definitions: list, register, try, change them. Tests: service/api/test_registry.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from packager.base.values import replace
from packager.service.access import permissions
from packager.service.failures import Complaint, Failure, over_limit
from packager.service.jobs import apply
from packager.service.registry.catalog import read_definition
from packager.service.store.models import StoredDefinition, StoredTemplate
from packager.service.use import answers
from packager.service.use.answers import (
    DefinitionList,
    DefinitionTrial,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateList,
    TemplateTrial,
)
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packager.service.access.permissions import Project
    from packager.service.access.tokens import Caller
    from packager.service.config import LimitsConfig
    from packager.service.jobs.make import Tasks
    from packager.service.registry.bodies import DefinitionBody, TemplateBody
    from packager.service.registry.catalog import Catalog
    from packager.service.registry.definitions import Definition
    from packager.service.work import Work

Checked = TypeVar("Checked")


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
        return answers.template(await self._checked(caller, lambda: self._catalog.add_template(body, caller.name)))

    async def trial(self, caller: Caller, body: TemplateBody) -> TemplateTrial:
        """Return the outcome of registering a template, without registering it."""
        permissions.check_admin(caller, None)
        tried = await self._checked(caller, lambda: self._catalog.try_template(body))
        return TemplateTrial(outcome=tried.outcome, definitions=tried.problems)

    async def change(self, caller: Caller, name: str, body: TemplateBody, expected: int | None) -> RegisteredTemplate:
        """Register the next revision of a template whose current revision is `expected`; None for any revision."""
        permissions.check_admin(caller, None)
        change = self._catalog.change_template
        row, warnings = await self._checked(caller, lambda: change(name, body, caller.name, expected))
        return answers.template(row, warnings)

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove a template that no definition uses."""
        permissions.check_admin(caller, None)
        await asyncio.to_thread(self._catalog.remove_template, name)

    async def _checked(self, caller: Caller, work: Callable[[], Checked]) -> Checked:
        """Run `work`, which checks a template, in a thread that delays no other request, and return its result."""
        return await self._work.run(Owner(caller.key), work)


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
        row, trial = await self._checked(caller, lambda: self._catalog.add_definition(body, caller.name))
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
        tried = await self._checked(caller, lambda: self._catalog.try_definition(body, caller.name))
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
            await self._checked(caller, lambda: self._catalog.try_definition(placed, caller.name))
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
        row, trial = await self._checked(caller, lambda: change(name, body, caller.name, expected))
        return answers.definition(row, await self._tasks.warnings(row, trial))

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove a definition; jobs that were made with it stay."""
        await self._changeable(caller, name)
        await asyncio.to_thread(self._catalog.remove_definition, name)

    async def _checked(self, caller: Caller, work: Callable[[], Checked]) -> Checked:
        """Run `work`, which checks a definition, in a thread that delays no other request, and return its result."""
        return await self._work.run(Owner(caller.key), work)

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
