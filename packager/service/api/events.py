"""The routes of events, as lists and as streams. Tests: service/use/test_streams.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from packager.base import jsonio
from packager.base.values import as_plain
from packager.service.api import document
from packager.service.api.access import HttpRequest, caller_of, door_of, server_of
from packager.service.use.answers import EventList, JobEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_LONGEST_ID = 64

After = Annotated[
    str | None, QueryParameter(max_length=_LONGEST_ID, description="The id of the last event that is known.")
]

_LISTED = {200: document.answer(EventList, "As JSON, or followed as text/event-stream")}


@get("/v1/jobs/{release:str}/events", responses=_LISTED)
async def job_events(request: HttpRequest, release: FromPath[str], after: After = None) -> Response[EventList] | Stream:
    """List the events of a job, the oldest first; with `Accept: text/event-stream`, follow them."""
    return await _listed(request, release, after)


@get("/v1/events", responses=_LISTED)
async def all_events(request: HttpRequest, after: After = None) -> Response[EventList] | Stream:
    """List the events of all jobs, the oldest first; with `Accept: text/event-stream`, follow them."""
    return await _listed(request, None, after)


async def _listed(request: HttpRequest, release: str | None, after: str | None) -> Response[EventList] | Stream:
    events = server_of(request.app.state).events
    if "text/event-stream" not in request.headers.get("accept", ""):
        return Response(await events.read(await caller_of(request), release, after))
    door_of(request.app.state).begin_stream(request)
    followed = await events.follow(
        partial(caller_of, request), release, request.headers.get("last-event-id", "")[:_LONGEST_ID] or after
    )
    return Stream(_as_text(followed), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def _as_text(followed: AsyncIterator[Sequence[JobEvent]]) -> AsyncIterator[str]:
    """Yield events in the format of text/event-stream, and a comment for each empty list of events."""
    async for events in followed:
        for event in events:
            yield f"id: {event.id}\nevent: status\ndata: {jsonio.compact(as_plain(event))}\n\n"
        if not events:
            yield ": nothing has changed\n\n"


HANDLERS = (job_events, all_events)
"""The routes."""
