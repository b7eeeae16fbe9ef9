"""The routes of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from litestar import Response, delete, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from packager.base import jsonio, rest
from packager.base.values import as_plain, replace
from packager.kubernetes.objects import Object
from packager.service.api import document
from packager.service.api.access import Created, HttpRequest, IdempotencyKey, caller_of, once, server_of
from packager.service.api.incoming import MOST_BYTES
from packager.service.registry import rendering
from packager.service.use.answers import Job, JobList, JobPreview
from packager.service.use.jobs import JobQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.base.values import Json
    from packager.service.access.tokens import Caller
    from packager.service.store.rows import KeyedRequest

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
) -> Response[JobPreview] | Response[dict[str, object]]:
    """Create a job from filled values; with `dry_run`, return the manifests that would be created."""
    caller = await caller_of(request)
    if dry_run:
        return Response(await server_of(state).jobs.preview(caller, data), status_code=200)
    return await create_once(request, caller, data, idempotency_key)


async def create_once(
    request: HttpRequest, caller: Caller, filled: Mapping[str, Json], key: str | None
) -> Response[dict[str, object]]:
    """Create a job, or repeat the answer to an earlier request with the same idempotency key. Raises Failure."""

    async def make(keyed: KeyedRequest | None) -> Created:
        return _created(await server_of(request.app.state).jobs.create(caller, filled, _answered(keyed)))

    return await once(request, caller, key, make)


async def rerun_once(
    request: HttpRequest, caller: Caller, release: str, key: str | None, *, is_pinned: bool
) -> Response[Any]:
    """Run a job again, or repeat the answer to an earlier request with the same idempotency key. Raises Failure."""

    async def make(keyed: KeyedRequest | None) -> Created:
        jobs = server_of(request.app.state).jobs
        return _created(await jobs.rerun(caller, release, is_pinned=is_pinned, answered=_answered(keyed)))

    return await once(request, caller, key, make)


def _created(job: Job) -> Created:
    return 201, as_plain(job), f"/v1/jobs/{job.release}"


def _answered(keyed: KeyedRequest | None) -> Callable[[Job], KeyedRequest | None]:
    """Return a function that completes a request with the answer, or returns None without a request."""

    def answered(job: Job) -> KeyedRequest | None:
        status, body, location = _created(job)
        return keyed and replace(keyed, status=status, body=jsonio.compact(body), location=location)

    return answered


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
    q: FromQuery[str | None] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response[JobList]:
    """List jobs, the newest first; `q` is a part of the release, `since` and `until` are times, or durations."""
    query = JobQuery(status, definition, creator, application, project, since, until, q, limit, cursor)
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
    release: FromPath[str],
    pinned: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[Job]:
    """Create a job from the values of another job; with `pinned`, also from the revisions of that job."""
    return await rerun_once(request, await caller_of(request), release, idempotency_key, is_pinned=pinned)


HANDLERS = (
    create_job,
    list_jobs,
    get_job,
    job_manifests,
    cancel_job,
    delete_job,
    rerun_job,
)
"""The routes."""
