"""The routes of callbacks: list the callbacks of a job, and send a callback again."""

from __future__ import annotations

from litestar import get, post
from litestar.datastructures import State
from litestar.params import FromPath

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.use.answers import Callback, CallbackList


@get("/v1/jobs/{release:str}/callbacks")
async def list_callbacks(request: HttpRequest, state: State, release: FromPath[str]) -> CallbackList:
    """List the callbacks of a job, in their order: attempts, the last answer, the next attempt."""
    return await server_of(state).jobs.callbacks(await caller_of(request), release)


@post("/v1/jobs/{release:str}/callbacks/{identifier:str}/redeliver", status_code=202)
async def redeliver_callback(
    request: HttpRequest, state: State, release: FromPath[str], identifier: FromPath[str]
) -> Callback:
    """Send a callback again now, in any state."""
    return await server_of(state).jobs.redeliver(await caller_of(request), release, identifier)


HANDLERS = (list_callbacks, redeliver_callback)
"""The routes."""
