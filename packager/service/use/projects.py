"""The use cases of projects: list projects, their limits and their use. Tests: service/api/test_projects.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.use import answers
from packager.service.use.answers import ProjectList, ProjectUse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.access.projects import Project
    from packager.service.access.tokens import Caller
    from packager.service.store.store import Store


class Projects:
    """The use cases of projects. Each raises Failure if its caller may not see the project.

    Args:
        store: The database.
        projects: The projects of the server, by name.
    """

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

    async def use(self, caller: Caller, project: str) -> ProjectUse:
        """Return the current jobs and GPUs of a project, and its limits."""
        if project not in self.names(caller, "viewer"):
            raise Failure("not-found", f"project {project!r} not found")
        return answers.project_use(self._projects[project], await asyncio.to_thread(self._store.usage, project))
