"""The view that people see first: what runs, what waits and why, and what has failed."""

from __future__ import annotations

from litestar import Response, get
from litestar.datastructures import State

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.page.html import respond


@get("/overview", include_in_schema=False)
async def _overview(request: HttpRequest, state: State) -> Response[str]:
    caller, server = await caller_of(request), server_of(state)
    after = await server.events.position()
    shown = await server.project_use.overview(caller)
    return await respond(request, "overview", overview=shown, after=after)


HANDLERS = (_overview,)
"""The routes."""
