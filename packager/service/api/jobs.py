"""The routes of jobs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Response, delete, get, post
from litestar.datastructures import MultiDict, State
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from packager.base.problems import show
from packager.base.values import as_plain
from packager.service import times
from packager.service.access import permissions
from packager.service.api import answers, document
from packager.service.api.access import AnyRequest, IdempotencyKey, caller_of, once, server_of
from packager.service.api.answers import (
    Job,
    JobList,
    JobPreview,
)
from packager.service.failures import Failure
from packager.service.jobs import records
from packager.service.store.store import STATUSES, Filters, as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.store.store import Row

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, QueryParameter(description="The `next` of the page before.")]


@post(
    "/v1/jobs",
    status_code=201,
    responses={
        200: document.answer(JobPreview, "What a dry run would create"),
        201: document.answer(Job, "The job"),
    },
)
async def create_job(
    request: AnyRequest,
    state: State,
    data: JSONBody[dict[str, Any]],
    dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[Any]:
    """Create a job from filled values; with `dry_run`, return what it would create."""
    caller = await caller_of(request, "user")
    filled = dict(data)
    project = server_of(state).tasks.project(filled.pop("project", None), caller)
    if dry_run:
        prepared = await server_of(state).tasks.prepare(filled, caller, project, dry_run=True)
        shown = records.redacted(prepared.objects)
        answer = JobPreview(release=prepared.row["release"], manifests=shown, warnings=list(prepared.warnings))
        return Response(answer, status_code=200)

    async def make(row: Row | None) -> tuple[int, Any, str]:
        job = await server_of(state).tasks.create(filled, caller, project, _stored_answer(row))
        return 201, as_plain(answers.job(job)), _location(job)

    return await once(request, caller, idempotency_key, make)


def _stored_answer(row: Row | None) -> Callable[[Row], Row | None]:
    """Return a function that completes the row of a request with its answer, from the new job."""

    def answer(job: Row) -> Row | None:
        body = as_json(as_plain(answers.job(job)))
        return row and {**row, "status": 201, "body": body, "location": _location(job)}

    return answer


def _location(job: Row) -> str:
    return f"/v1/jobs/{job['release']}"


@get("/v1/jobs")
async def list_jobs(  # noqa: PLR0913, PLR0917 - the parameters of the query
    request: AnyRequest,
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
    caller = await caller_of(request, "viewer")
    if status is not None and status not in STATUSES:
        raise Failure("invalid-query", f"status: expected {', '.join(STATUSES)}; found {show(status)}")
    since, until = _moment("since", since), _moment("until", until)
    visible = permissions.projects_of(caller, "viewer")
    if project is not None:
        visible = (project,) if visible is None or project in visible else ()
    filters = Filters(status, definition, creator, application, since, until, q, visible)
    rows = await asyncio.to_thread(server_of(state).store.jobs, filters, limit + 1, _decoded(cursor))
    following = _encoded(rows[limit - 1]) if len(rows) > limit else None
    page = JobList(items=[answers.job(row) for row in rows[:limit]], next=following)
    link = {}
    if following:
        query = MultiDict({**dict(request.query_params), "cursor": following})
        url = request.url.with_replacements(path=server_of(state).root + request.url.path, query=query)
        link = {"Link": f'<{url}>; rel="next"'}
    return Response(page, headers=link)


def _moment(key: str, text: str | None) -> str | None:
    """Return a time as the database has it."""
    try:
        return None if text is None else times.as_text(times.moment(text, datetime.now(UTC), zone=UTC))
    except ValueError as error:
        raise Failure("invalid-query", f"{key}: {error}") from None


def _encoded(row: Row) -> str:
    return base64.urlsafe_b64encode(json.dumps([row["created"], row["release"]]).encode()).decode().rstrip("=")


def _decoded(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        created, release = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(created, str) and isinstance(release, str):
            return created, release
    except (binascii.Error, ValueError, TypeError, RecursionError):
        pass
    raise Failure("invalid-query", "cursor: expected the `next` of a page")


@get("/v1/jobs/{release:str}")
async def get_job(request: AnyRequest, state: State, release: FromPath[str]) -> Job:
    """Return a job."""
    caller = await caller_of(request, "viewer")
    return answers.job(await server_of(state).tasks.job(release, caller))


@get("/v1/jobs/{release:str}/manifests")
async def job_manifests(request: AnyRequest, state: State, release: FromPath[str]) -> list[dict[str, Any]]:
    """Return the objects of a job as they were applied, without secrets."""
    caller = await caller_of(request, "viewer")
    row = await server_of(state).tasks.job(release, caller)
    return records.redacted(json.loads(row["manifests"]))


@post("/v1/jobs/{release:str}/cancel", status_code=202)
async def cancel_job(request: AnyRequest, state: State, release: FromPath[str]) -> Job:
    """Stop a job; its record and its claims stay."""
    caller = await caller_of(request, "user")
    job_tasks = server_of(state).tasks
    return answers.job(await job_tasks.cancel(await job_tasks.job(release, caller, "user"), caller))


@delete("/v1/jobs/{release:str}", status_code=202)
async def delete_job(
    request: AnyRequest, state: State, release: FromPath[str], storage: FromQuery[str] = "keep"
) -> Job:
    """Stop a job, and delete its objects and its record; its claims only with `storage=delete`."""
    caller = await caller_of(request, "user")
    if storage not in ("keep", "delete"):
        raise Failure("invalid-query", "storage: expected keep or delete")
    job_tasks = server_of(state).tasks
    row = await job_tasks.job(release, caller, "user")
    return answers.job(await job_tasks.delete(row, caller, with_storage=storage == "delete"))


@post("/v1/jobs/{release:str}/rerun", status_code=201)
async def rerun_job(
    request: AnyRequest,
    state: State,
    release: FromPath[str],
    pinned: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[Job]:
    """Create a job from the values of another; with `pinned`, from its revisions too."""
    caller = await caller_of(request, "user")

    async def make(row: Row | None) -> tuple[int, Any, str]:
        job = await server_of(state).jobs.rerun(caller, release, is_pinned=pinned, answer=_stored_answer(row))
        return 201, as_plain(answers.job(job)), _location(job)

    return await once(request, caller, idempotency_key, make)


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
