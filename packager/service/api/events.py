"""The routes of events, as lists and as streams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Response, get
from litestar.datastructures import State
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from packager.service.access import permissions
from packager.service.api import document
from packager.service.api.access import AnyRequest, caller_of, server_of
from packager.service.api.answers import (
    EventList,
    JobEvent,
)
from packager.service.api.streams import guarded
from packager.service.failures import Failure
from packager.service.store.store import FINAL, as_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from packager.service.server import Server

After = Annotated[int, QueryParameter(ge=0, le=1 << 62, description="The id of the last event that is known.")]

_SILENCE = 15.0
"""Seconds after which a stream of events has a comment, so that proxies keep it open."""

_LISTED = {200: document.answer(EventList, "As JSON, or followed as text/event-stream")}

# events


@get("/v1/jobs/{release:str}/events", responses=_LISTED)
async def job_events(
    request: AnyRequest, state: State, release: FromPath[str], after: After = 0
) -> Response[Any] | Stream:
    """List the events of a job, the oldest first; with `Accept: text/event-stream`, follow them."""

    async def check() -> tuple[str, ...] | None:
        await server_of(state).tasks.job(release, await caller_of(request, "viewer"))
        return None

    return await _listed(request, release, after, check)


@get("/v1/events", responses=_LISTED)
async def all_events(request: AnyRequest, after: After = 0) -> Response[Any] | Stream:
    """List the events of all jobs, the oldest first; with `Accept: text/event-stream`, follow them."""

    async def check() -> tuple[str, ...] | None:
        return permissions.projects_of(await caller_of(request, "viewer"), "viewer")

    return await _listed(request, None, after, check)


async def _listed(
    request: AnyRequest,
    release: str | None,
    after: int,
    check: Callable[[], Awaitable[tuple[str, ...] | None]],
) -> Response[Any] | Stream:
    """Return events, or follow them.

    Args:
        request: The request.
        release: Whose; None for all jobs.
        after: The id of the last one that is known.
        check: Returns the projects whose events the caller may read, None for all; raises Failure if there are none.
    """
    server, projects = server_of(request.app.state), await check()

    async def is_unchanged() -> None:
        if await check() != projects:
            raise Failure("forbidden", "the roles of the caller have changed")

    if "text/event-stream" in request.headers.get("accept", ""):
        last = request.headers.get("last-event-id", "")
        start = int(last) if last.isdecimal() and len(last) < 18 else after
        return Stream(
            guarded(_followed(server, release, start, projects), is_unchanged),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache"},
        )
    rows = await asyncio.to_thread(server.store.events, release, after, 1000, projects)
    following = str(rows[-1]["id"]) if len(rows) == 1000 else None
    return Response(EventList(items=[JobEvent(**row) for row in rows], next=following))


async def _followed(
    server: Server, release: str | None, after: int, projects: tuple[str, ...] | None
) -> AsyncGenerator[str]:
    """Yield events as a stream of text/event-stream; that of a job ends with the job."""
    while True:
        generation = server.pulse.generation
        # The job is read before its events: the last one is stored together with its end.
        job = await asyncio.to_thread(server.store.job, release) if release is not None else None
        rows = await asyncio.to_thread(server.store.events, release, after, 1000, projects)
        for row in rows:
            after = row["id"]
            yield f"id: {row['id']}\nevent: status\ndata: {as_json(row)}\n\n"
        if release is not None and not rows and (job is None or job["status"] in FINAL):
            return
        if not rows and not await server.pulse.wait(generation, _SILENCE):
            yield ": nothing has changed\n\n"


HANDLERS = (job_events, all_events)
"""The routes."""
