"""The routes of projects."""

from __future__ import annotations

from litestar import get
from litestar.datastructures import State
from litestar.params import FromPath

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.use.answers import ProjectList, ProjectUse


@get("/v1/projects")
async def list_projects(request: HttpRequest, state: State) -> ProjectList:
    """List the projects in which the caller has a role."""
    return server_of(state).project_use.read(await caller_of(request))


@get("/v1/projects/{project:str}/usage")
async def project_usage(request: HttpRequest, state: State, project: FromPath[str]) -> ProjectUse:
    """Return how many jobs and GPUs a project has now, and its limits."""
    return await server_of(state).project_use.use(await caller_of(request), project)


HANDLERS = (list_projects, project_usage)
"""The routes."""
