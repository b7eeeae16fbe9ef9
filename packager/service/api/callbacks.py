"""The routes of callbacks: what an endpoint was told, and to tell it again."""

from __future__ import annotations

import asyncio

from litestar import get, post
from litestar.datastructures import State
from litestar.params import FromPath

from packager.service.access import permissions
from packager.service.api import answers
from packager.service.api.access import AnyRequest, caller_of, server_of
from packager.service.api.answers import Callback, CallbackList
from packager.service.failures import Failure
from packager.service.times import now


@get("/v1/jobs/{release:str}/callbacks")
async def list_callbacks(request: AnyRequest, state: State, release: FromPath[str]) -> CallbackList:
    """List the callbacks of a job, in their order: attempts, the last answer, the next attempt."""
    await _require_owner(request, release)
    rows = await asyncio.to_thread(server_of(state).store.outbox.of_job, release)
    return CallbackList(items=[answers.callback(row) for row in rows])


@post("/v1/jobs/{release:str}/callbacks/{identifier:str}/redeliver", status_code=202)
async def redeliver_callback(
    request: AnyRequest, state: State, release: FromPath[str], identifier: FromPath[str]
) -> Callback:
    """Send a callback again, now, whatever has become of it."""
    await _require_owner(request, release)
    server = server_of(state)
    row = await asyncio.to_thread(server.store.outbox.redeliver, release, identifier, now())
    if row is None:
        raise Failure("not-found", f"callback {identifier!r} not found")
    server.courier.wake()
    return answers.callback(row)


async def _require_owner(request: AnyRequest, release: str) -> None:
    caller = await caller_of(request, "user")
    row = await server_of(request.app.state).tasks.job(release, caller, "user")
    permissions.check_owns_job(caller, row, "see the callbacks of others")


HANDLERS = (list_callbacks, redeliver_callback)
"""The routes."""
