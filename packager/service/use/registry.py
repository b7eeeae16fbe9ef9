"""The use cases of templates and definitions: list, register, try, change them. Tests: service/api/test_registry.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from packager.base.values import replace
from packager.service.access import permissions
from packager.service.complaints import Complaint
from packager.service.failures import Failure, over_limit
from packager.service.fair_queues import ALL, Owner
from packager.service.jobs import records
from packager.service.registry.catalog import read_definition
from packager.service.use import answers
from packager.service.use.answers import (
    DefinitionList,
    DefinitionTrial,
    ObjectProblem,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateList,
    TemplateTrial,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packager.service.access.projects import Project
    from packager.service.access.tokens import Caller
    from packager.service.config import LimitsConfig
    from packager.service.fair_queues import FairPool
    from packager.service.jobs.tasks import Tasks
    from packager.service.registry.bodies import DefinitionBody, TemplateBody
    from packager.service.registry.catalog import Catalog
    from packager.service.registry.definitions import Definition
    from packager.service.registry.policy import Accepted
    from packager.service.store.rows import StoredDefinition

Checked = TypeVar("Checked")


class TaskTemplates:
    """The use cases of templates: all callers see templates, and admins of all projects change templates.

    Each raises Failure if the caller has no permission, or the template was not found.

    Args:
        catalog: The templates of the server.
        rendering: The threads in which templates are checked.
    """

    def __init__(self, catalog: Catalog, rendering: FairPool) -> None:
        self._catalog = catalog
        self._rendering = rendering

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
        rows = await asyncio.to_thread(self._catalog.revisions.template_revisions, name)
        if not rows:
            raise Failure("not-found", f"template {name!r} not found")
        return TemplateList(items=[answers.template(row) for row in rows])

    async def add(self, caller: Caller, body: TemplateBody) -> RegisteredTemplate:
        """Register a template."""
        permissions.check_admin(caller, None)
        row, warnings = await self._checked(caller, lambda: self._catalog.add_template(body, caller.name))
        return answers.template(row, warnings)

    async def trial(self, caller: Caller, body: TemplateBody) -> TemplateTrial:
        """Return the outcome of registering a template, without registering it."""
        permissions.check_admin(caller, None)
        tried = await self._checked(caller, lambda: self._catalog.try_template(body))
        problems = [
            ObjectProblem(detail=item.detail, hint=item.hint, line=item.line or None) for item in tried.complaints
        ]
        return TemplateTrial(outcome=tried.outcome, definitions=tried.problems, problems=problems)

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
        return await self._rendering.run(Owner(ALL, caller.key), work)


class TaskDefinitions:
    """The use cases of definitions: a definition of a project is visible and used in that project only.

    Each raises Failure if the caller has no permission, or the definition was not found or is not visible.

    Args:
        catalog: The definitions of the server.
        tasks: Compares definitions with the cluster.
        projects: The projects of the server, by name.
        checking: The threads that wait for checks of definitions.
        reading: The threads in which packages are read, from registries that may be slow.
        limits: The limits of the server, such as the number of definitions of a project: each list reads them all.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        catalog: Catalog,
        tasks: Tasks,
        projects: Mapping[str, Project],
        checking: FairPool,
        reading: FairPool,
        limits: LimitsConfig,
    ) -> None:
        self._catalog = catalog
        self._tasks = tasks
        self._projects = projects
        self._checking = checking
        self._reading = reading
        self._limits = limits

    async def read(self, caller: Caller) -> DefinitionList:
        """Return the current revision of each definition that the caller may see."""
        permissions.check_role(caller, "viewer")
        return await asyncio.to_thread(self._listed, caller)

    def _listed(self, caller: Caller) -> DefinitionList:
        """Return the definitions that a caller may see. A thread makes the list: thousands take seconds to parse."""
        rows = self._catalog.revisions.definitions()
        return DefinitionList(
            items=[answers.definition(row) for row in rows if permissions.sees_definition(caller, row)]
        )

    async def definition(self, caller: Caller, name: str, revision: int | None = None) -> RegisteredDefinition:
        """Return a revision of a definition, or the current one."""
        return answers.definition(await self._visible(caller, name, revision))

    async def usable(self, caller: Caller, name: str) -> Definition:
        """Return the current revision of a definition, parsed for making jobs."""
        return await asyncio.to_thread(read_definition, await self._visible(caller, name))

    async def revisions(self, caller: Caller, name: str) -> DefinitionList:
        """Return all revisions of a definition, the newest first."""
        permissions.check_role(caller, "viewer")
        rows = await asyncio.to_thread(self._catalog.revisions.definition_revisions, name)
        if not rows or not permissions.sees_definition(caller, rows[0]):
            raise Failure("not-found", f"definition {name!r} not found")
        visible = [row for row in rows if permissions.sees_definition(caller, row)]
        return DefinitionList(items=[answers.definition(row) for row in visible])

    async def add(self, caller: Caller, body: DefinitionBody) -> RegisteredDefinition:
        """Register a definition, whose example is filled in as a trial."""
        permissions.check_role(caller, "developer")
        body = await self._placed(caller, body, body.project)
        row, trial = await self._checked(caller, body, lambda: self._added(body, caller.name))
        return answers.definition(row, await self._tasks.warnings(trial))

    def _added(self, body: DefinitionBody, author: str) -> tuple[StoredDefinition, Accepted]:
        """Register a definition, and return it with the objects of its example. Raises Failure."""
        self._check_room(body.project, is_new=True)
        return self._catalog.add_definition(body, author)

    def _changed(
        self, name: str, body: DefinitionBody, author: str, expected: int | None
    ) -> tuple[StoredDefinition, Accepted]:
        """Register a revision, and return it with the objects of its example. Raises Failure."""
        self._check_room(body.project, is_new=False)
        return self._catalog.change_definition(name, body, author, expected)

    def _check_room(self, project: str | None, *, is_new: bool) -> None:
        """Raise Failure if a project has no room for another revision, or for a new definition."""
        if project is None:
            return
        count, revisions = self._catalog.revisions.count_definitions(f"{project}.")
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
            asked = permissions.definition_project(before)
        body = await self._placed(caller, body, asked)
        if before is not None:
            permissions.check_changes_definition(caller, before)
        tried = await self._checked(caller, body, lambda: self._catalog.try_definition(body, caller.name))
        return DefinitionTrial(
            outcome=tried.outcome,
            manifests=records.redacted(tried.trial.objects),
            warnings=await self._tasks.warnings(tried.trial),
        )

    async def problems(self, caller: Caller, body: DefinitionBody) -> Sequence[Complaint]:
        """Return the problems of a definition, except those of its name."""
        permissions.check_role(caller, "developer")
        try:
            placed = replace(body, project=permissions.project_of_definition(caller, body.project, self._projects))
            await self._checked(caller, placed, lambda: self._catalog.try_definition(placed, caller.name))
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
        body = await self._placed(caller, body, body.project or permissions.definition_project(before))
        row, trial = await self._checked(caller, body, lambda: self._changed(name, body, caller.name, expected))
        return answers.definition(row, await self._tasks.warnings(trial))

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove a definition; jobs that were made with it stay."""
        await self._changeable(caller, name)
        await asyncio.to_thread(self._catalog.remove_definition, name)

    async def _checked(self, caller: Caller, body: DefinitionBody, work: Callable[[], Checked]) -> Checked:
        """Run `work`, which checks a definition, in a thread that delays no other request, and return its result.

        A definition over a template is checked in a child process, for which the thread waits.
        """
        pool = self._checking if body.package is None else self._reading
        return await pool.run(Owner(body.project or ALL, caller.key), work)

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
