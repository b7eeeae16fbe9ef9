"""The view of the projects: their limits, and what their jobs take now."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Response, get
from litestar.datastructures import State

from packager.service.api import projects as routes
from packager.service.api.access import AnyRequest, server_of
from packager.service.page.html import respond


@get("/projects", include_in_schema=False)
async def _projects(request: AnyRequest, state: State) -> Response[Any]:
    names = [item.name for item in (await routes.list_projects.fn(request, state)).items]
    items = [await routes.project_usage.fn(request, state, project=name) for name in names]
    after = await asyncio.to_thread(server_of(state).store.last_event)
    return await respond(request, "projects", items=items, after=after)


HANDLERS = (_projects,)
"""The routes."""
