"""The use cases of projects: list projects, their limits and their use. Tests: service/api/test_projects.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.base.values import Value, as_plain
from packager.service.access import permissions, tokens
from packager.service.failures import Failure, over_limit
from packager.service.store.models import as_text
from packager.service.store.small import TokensFullError
from packager.service.use import answers
from packager.service.use.answers import Job, NewToken, ProjectList, ProjectUse, TokenList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.access.permissions import Project
    from packager.service.access.tokens import Caller
    from packager.service.registry.bodies import TokenBody
    from packager.service.store.models import StoredToken
    from packager.service.store.store import Store


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
