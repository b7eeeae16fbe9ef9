"""The routes of jobs."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from packager.base import rest
from packager.kubernetes.objects import Object
from packager.service.api import document
from packager.service.api.access import HttpRequest, IdempotencyKey, caller_of, created, request_key, server_of
from packager.service.api.incoming import MOST_BYTES
from packager.service.registry import rendering
from packager.service.use.answers import Job, JobChanges, JobList, JobPreview
from packager.service.use.jobs import JobQuery

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, QueryParameter(description="The `next` of the page before.")]


@post(
    "/v1/jobs",
    status_code=201,
    opt={MOST_BYTES: rendering.MAX_VALUES},
    responses={
        200: document.answer(JobPreview, "What a dry run would create"),
        201: document.answer(Job, "The job"),
    },
)
async def create_job(
    request: HttpRequest,
    state: State,
    data: JSONBody[dict[str, Any]],  # msgspec has no recursive types, such as Json
    dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[JobPreview] | Response[Job]:
    """Create a job from filled values; with `dry_run`, return the manifests that would be created."""
    caller = await caller_of(request)
    if dry_run:
        return Response(await server_of(state).jobs.preview(caller, data), status_code=200)
    key = await request_key(request, caller, idempotency_key)
    return _created(await server_of(state).jobs.create(caller, data, key))


def _created(job: Job) -> Response[Job]:
    return created(job, f"/v1/jobs/{job.release}")


@get("/v1/jobs")
async def list_jobs(  # noqa: PLR0913, PLR0917 - the parameters of the query
    request: HttpRequest,
    state: State,
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
) -> Response[JobList]:
    """List jobs, the newest first; `q` is a part of the release or the title, the others are times, or durations.

    `since` and `until` limit the time of creation, and `ended_since` the time of the end.
    """
    query = JobQuery(status, definition, creator, application, project, since, until, q, limit, cursor, ended_since)
    page = await server_of(state).jobs.search(await caller_of(request), query)
    link = {}
    if page.next:
        server, changed = server_of(state), {**dict(request.query_params), "cursor": page.next}
        link = {"Link": f'<{server.origin}{server.root}/v1/jobs{rest.path(**changed)}>; rel="next"'}
    return Response(page, headers=link)


@get("/v1/jobs/{release:str}")
async def get_job(request: HttpRequest, state: State, release: FromPath[str]) -> Job:
    """Return a job."""
    return await server_of(state).jobs.job(await caller_of(request), release)


@patch("/v1/jobs/{release:str}")
async def rename_job(request: HttpRequest, state: State, release: FromPath[str], data: JSONBody[JobChanges]) -> Job:
    """Change the title of a job, which lists show; an empty one stands for the description in its values."""
    return await server_of(state).jobs.rename(await caller_of(request), release, data.title)


@get("/v1/jobs/{release:str}/manifests")
async def job_manifests(request: HttpRequest, state: State, release: FromPath[str]) -> list[Object]:
    """Return the applied objects of a job, without secrets."""
    return await server_of(state).jobs.manifests(await caller_of(request), release)


@post("/v1/jobs/{release:str}/cancel", status_code=202)
async def cancel_job(request: HttpRequest, state: State, release: FromPath[str]) -> Job:
    """Stop a job; its record and its claims stay."""
    return await server_of(state).jobs.cancel(await caller_of(request), release)


@delete("/v1/jobs/{release:str}", status_code=202)
async def delete_job(
    request: HttpRequest, state: State, release: FromPath[str], storage: FromQuery[str] = "keep"
) -> Job:
    """Stop a job, and delete its objects and its record; its claims only with `storage=delete`."""
    return await server_of(state).jobs.delete(await caller_of(request), release, storage)


@post("/v1/jobs/{release:str}/rerun", status_code=201)
async def rerun_job(
    request: HttpRequest,
    state: State,
    release: FromPath[str],
    pinned: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[Job]:
    """Create a job from the values of another job; with `pinned`, also from the revisions of that job."""
    caller = await caller_of(request)
    key = await request_key(request, caller, idempotency_key)
    return _created(await server_of(state).jobs.rerun(caller, release, is_pinned=pinned, key=key))


HANDLERS = (
    create_job,
    list_jobs,
    get_job,
    rename_job,
    job_manifests,
    cancel_job,
    delete_job,
    rerun_job,
)
"""The routes."""
