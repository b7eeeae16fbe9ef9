"""The view of the projects: their limits and their current use."""

from __future__ import annotations

from litestar import Response, get
from litestar.datastructures import State

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.page.html import respond


@get("/projects", include_in_schema=False)
async def _projects(request: HttpRequest, state: State) -> Response[str]:
    caller, projects = await caller_of(request), server_of(state).project_use
    items = [await projects.use(caller, name) for name in projects.names(caller, "viewer")]
    after = await server_of(state).events.position()
    return await respond(request, "projects", items=items, after=after)


HANDLERS = (_projects,)
"""The routes."""
