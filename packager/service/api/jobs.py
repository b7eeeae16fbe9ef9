"""The routes of jobs: their list, one job, its logs, curves, events and callbacks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Controller, MediaType, Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from packager.base import jsonio, rest
from packager.base.values import as_plain
from packager.kubernetes.objects import Object
from packager.service.api import document
from packager.service.api.access import (
    CallerDependency,
    HttpRequest,
    IdempotencyKey,
    ServerDependency,
    caller_of,
    created,
    door_of,
    request_key,
)
from packager.service.api.incoming import MOST_BYTES
from packager.service.jobs.kube import LogOptions
from packager.service.registry import rendering
from packager.service.store.store import JobQuery
from packager.service.use import answers, logs
from packager.service.use.answers import (
    Callback,
    Job,
    JobChanges,
    JobEvent,
    JobPreview,
    Metric,
    Page,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, QueryParameter(description="The `next` of the page before.")]

_LONGEST_ID = 64
After = Annotated[
    str | None, QueryParameter(max_length=_LONGEST_ID, description="The id of the last event that is known.")
]
_LISTED = {200: document.answer(Page[JobEvent], "As JSON, or followed as text/event-stream")}


class JobRoutes(Controller):
    """The routes of jobs."""

    path = "/v1/jobs"

    @post(
        status_code=201,
        opt={MOST_BYTES: rendering.MAX_VALUES},
        responses={
            200: document.answer(JobPreview, "What a dry run would create"),
            201: document.answer(Job, "The job"),
        },
    )
    async def create_job(  # noqa: PLR0913, PLR0917 - the parameters of the request
        self,
        request: HttpRequest,
        server: ServerDependency,
        caller: CallerDependency,
        data: JSONBody[dict[str, Any]],  # msgspec has no recursive types, such as Json
        dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
        idempotency_key: IdempotencyKey = None,
    ) -> Response[JobPreview] | Response[Job]:
        """Create a job from filled values; with `dry_run`, return the manifests that would be created."""
        if dry_run:
            return Response(await server.jobs.preview(caller, data), status_code=200)
        job = await server.jobs.create(caller, data, await request_key(request, caller, idempotency_key))
        return created(job, f"/v1/jobs/{job.release}")

    @get()
    async def list_jobs(  # noqa: PLR0913, PLR0917 - the parameters of the query
        self,
        request: HttpRequest,
        server: ServerDependency,
        caller: CallerDependency,
        status: FromQuery[str | None] = None,
        definition: FromQuery[str | None] = None,
        creator: FromQuery[str | None] = None,
        application: FromQuery[str | None] = None,
        project: FromQuery[str | None] = None,
        since: FromQuery[str | None] = None,
        until: FromQuery[str | None] = None,
        ended_since: FromQuery[str | None] = None,
        q: FromQuery[str | None] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Response[Page[Job]]:
        """List jobs, the newest first; `q` is a part of the release or the title, the others are times, or durations.

        `since` and `until` limit the time of creation, and `ended_since` the time of the end.
        """
        query = JobQuery(status, definition, creator, application, project, since, until, q, limit, cursor, ended_since)
        page = await server.jobs.search(caller, query)
        link = {}
        if page.next:
            changed = {**dict(request.query_params), "cursor": page.next}
            link = {"Link": f'<{server.origin}{server.root}/v1/jobs{rest.path(**changed)}>; rel="next"'}
        return Response(page, headers=link)

    @get("/{release:str}")
    async def get_job(self, server: ServerDependency, caller: CallerDependency, release: FromPath[str]) -> Job:
        """Return a job."""
        return await server.jobs.job(caller, release)

    @patch("/{release:str}")
    async def rename_job(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        release: FromPath[str],
        data: JSONBody[JobChanges],
    ) -> Job:
        """Change the title of a job, which lists show; an empty one stands for the description in its values."""
        return await server.jobs.rename(caller, release, data.title)

    @get("/{release:str}/manifests")
    async def job_manifests(
        self, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
    ) -> list[Object]:
        """Return the applied objects of a job, without secrets."""
        return await server.jobs.manifests(caller, release)

    @get("/{release:str}/metrics")
    async def job_metrics(
        self, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
    ) -> Page[Metric]:
        """Return the curves of a job, from the lines of JSON with a `step` that its pods have printed."""
        return Page(items=[answers.metric(curve) for curve in await server.jobs.curves(caller, release)])

    @post("/{release:str}/cancel", status_code=202)
    async def cancel_job(self, server: ServerDependency, caller: CallerDependency, release: FromPath[str]) -> Job:
        """Stop a job; its record and its claims stay."""
        return await server.jobs.cancel(caller, release)

    @delete("/{release:str}", status_code=202)
    async def delete_job(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        release: FromPath[str],
        storage: FromQuery[str] = "keep",
    ) -> Job:
        """Stop a job, and delete its objects and its record; its claims only with `storage=delete`."""
        return await server.jobs.delete(caller, release, storage)

    @post("/{release:str}/rerun", status_code=201)
    async def rerun_job(  # noqa: PLR0913, PLR0917 - the parameters of the request
        self,
        request: HttpRequest,
        server: ServerDependency,
        caller: CallerDependency,
        release: FromPath[str],
        pinned: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
        idempotency_key: IdempotencyKey = None,
    ) -> Response[Job]:
        """Create a job from the values of another job; with `pinned`, also from the revisions of that job."""
        key = await request_key(request, caller, idempotency_key)
        job = await server.jobs.rerun(caller, release, is_pinned=pinned, key=key)
        return created(job, f"/v1/jobs/{job.release}")

    @get("/{release:str}/callbacks")
    async def list_callbacks(
        self, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
    ) -> Page[Callback]:
        """List the callbacks of a job, in their order: attempts, the last answer, the next attempt."""
        return await server.jobs.callbacks(caller, release)

    @get("/{release:str}/logs", responses={200: document.answer(str, "The log", MediaType.TEXT)})
    async def job_logs(  # noqa: PLR0913, PLR0917 - the parameters of the query
        self,
        request: HttpRequest,
        state: State,
        server: ServerDependency,
        release: FromPath[str],
        pod: FromQuery[str | None] = None,
        container: FromQuery[str | None] = None,
        tail: Annotated[int | None, QueryParameter(ge=0, le=1_000_000)] = None,
        since: Annotated[str | None, QueryParameter(description="A time, or a duration such as 10m.")] = None,
        previous: FromQuery[bool] = False,  # noqa: FBT002
        follow: FromQuery[bool] = False,  # noqa: FBT002
        timestamps: FromQuery[bool] = False,  # noqa: FBT002
    ) -> Stream:
        """Return the log of a job's pods; with several, each line begins with its pod's name.

        `previous` selects the log of a container before its last restart. `follow` of all pods continues until the job
        has ended, and includes pods that start later; `follow` of one pod continues until its container ends. With
        `timestamps`, each line begins with its time. The end of the log is kept after the pods are deleted.
        """
        if follow:
            door_of(state).begin_stream(request)
        options = LogOptions(container, tail, logs.moment(since), previous, follow, timestamps)
        log = await server.logs.open(partial(caller_of, request), release, pod, options)
        return Stream(log, media_type="text/plain")

    @get("/{release:str}/events", responses=_LISTED)
    async def job_events(
        self, request: HttpRequest, server: ServerDependency, release: FromPath[str], after: After = None
    ) -> Response[Page[JobEvent]] | Stream:
        """List the events of a job, the oldest first; with `Accept: text/event-stream`, follow them."""
        return await _events(request, server, release, after)


@get("/v1/events", responses=_LISTED)
async def all_events(
    request: HttpRequest, server: ServerDependency, after: After = None
) -> Response[Page[JobEvent]] | Stream:
    """List the events of all jobs, the oldest first; with `Accept: text/event-stream`, follow them."""
    return await _events(request, server, None, after)


async def _events(
    request: HttpRequest, server: ServerDependency, release: str | None, after: str | None
) -> Response[Page[JobEvent]] | Stream:
    if "text/event-stream" not in request.headers.get("accept", ""):
        return Response(await server.events.read(await caller_of(request), release, after))
    door_of(request.app.state).begin_stream(request)
    known = request.headers.get("last-event-id", "")[:_LONGEST_ID] or after
    followed = await server.events.follow(partial(caller_of, request), release, known)
    return Stream(_as_text(followed), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def _as_text(followed: AsyncIterator[Sequence[JobEvent]]) -> AsyncIterator[str]:
    """Yield events in the format of text/event-stream, and a comment for each empty list of events."""
    async for events in followed:
        for event in events:
            yield f"id: {event.id}\nevent: status\ndata: {jsonio.compact(as_plain(event))}\n\n"
        if not events:
            yield ": nothing has changed\n\n"
