"""The view of the API: its operations, from the OpenAPI document."""

from __future__ import annotations

import asyncio
import json

from litestar import Response, get

from packager.service.api.access import HttpRequest, server_of
from packager.service.api.reference import operations
from packager.service.page.html import respond


@get("/api", include_in_schema=False)
async def _api(request: HttpRequest) -> Response[str]:
    content, _ = await request.app.state.document.content(request.app, server_of(request.app.state).root)
    items = await asyncio.to_thread(lambda: operations(json.loads(content)))
    return await respond(request, "api", items=items)


HANDLERS = (_api,)
"""The routes."""
