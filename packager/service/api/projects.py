"""The routes of projects."""

from __future__ import annotations

import asyncio

from litestar import get
from litestar.datastructures import State
from litestar.params import FromPath

from packager.service.api.access import AnyRequest, caller_of, server_of
from packager.service.failures import Failure
from packager.service.use import answers
from packager.service.use.answers import ProjectList, ProjectUse


@get("/v1/projects")
async def list_projects(request: AnyRequest, state: State) -> ProjectList:
    """List the projects in which the caller has a role."""
    caller = await caller_of(request, "viewer")
    known = server_of(state).projects.values()
    return ProjectList(items=[answers.project(project) for project in known if caller.may("viewer", project.name)])


@get("/v1/projects/{project:str}/usage")
async def project_usage(request: AnyRequest, state: State, project: FromPath[str]) -> ProjectUse:
    """Return how many jobs and GPUs a project has now, and its limits."""
    caller = await caller_of(request, "viewer")
    server = server_of(state)
    if project not in server.projects or not caller.may("viewer", project):
        raise Failure("not-found", f"project {project!r} not found")
    rows = await asyncio.to_thread(server.store.usage, project)
    return answers.project_use(server.projects[project], rows)


HANDLERS = (list_projects, project_usage)
"""The routes."""
