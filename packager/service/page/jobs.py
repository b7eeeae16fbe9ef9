"""The view of a job, and the actions on a job."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from packager.base.errors import ClusterError
from packager.diagnosis.curves.figure import figures
from packager.service.access import permissions
from packager.service.api.access import CallerDependency, HttpRequest, ServerDependency, caller_of, request_key
from packager.service.failures import Failure
from packager.service.jobs.kube import LogOptions
from packager.service.page import form
from packager.service.page.html import redirect, respond, visible
from packager.service.page.new import next_key
from packager.service.store.store import FINAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from packager.kubernetes.objects import Object
    from packager.service.use.answers import Job

_MOST_SHOWN = 50
_LOG_LINES = 200
_LOG_CHARACTERS = 128 << 10
_LOG_SECONDS = 3.0


@get("/jobs/{release:str}", include_in_schema=False)
async def job(
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    release: FromPath[str],
    pod: FromQuery[str | None] = None,
) -> Response[str]:
    """Show a job."""
    return await _job(request, server, caller, release, pod)


async def _job(  # noqa: PLR0913, PLR0917 - the parts of the view
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    release: str,
    pod: str | None = None,
    failure: Failure | None = None,
    rerun_key: str | None = None,
) -> Response[str]:
    """Return the view of a job. Raises Failure."""
    shown = await server.jobs.job(caller, release)
    history = (await server.events.read(caller, release)).items[-_MOST_SHOWN:]
    manifests = await server.jobs.manifests(caller, release)
    is_own = permissions.owns(caller, shown.owner, shown.project)
    is_logarithmic = request.query_params.get("scale") == "log"
    pods = [item["name"] for item in shown.pods]
    chosen = pod if pod in pods else None
    log, log_problem = await _log(request, server, release, chosen or (pods[0] if len(pods) == 1 else None))
    return await respond(
        request,
        caller,
        "job",
        failure.status if failure else 200,
        job=shown,
        history=history,
        figures=figures(await server.jobs.curves(caller, release), is_logarithmic=is_logarithmic),
        is_logarithmic=is_logarithmic,
        deliveries=(await server.jobs.callbacks(caller, release)).items[-_MOST_SHOWN:]
        if is_own and caller.may("user", shown.project)
        else (),
        manifests=manifests,
        objects=[f"{item['kind']} {item['metadata']['name']}" for item in manifests if not _is_claim(item)],
        claims=[item["metadata"]["name"] for item in manifests if _is_claim(item)],
        values=flat(shown.values),
        may_change=is_own and caller.may("user", shown.project),
        has_ended=shown.status in FINAL,
        log=log,
        log_problem=log_problem,
        pod=chosen,
        failure=failure,
        key=next_key(rerun_key, failure),
        after=history[-1].id if history else await server.events.position(),
    )


def _is_claim(item: Object) -> bool:
    return str(item["kind"]) == "PersistentVolumeClaim"


async def _log(request: HttpRequest, server: ServerDependency, release: str, pod: str | None) -> tuple[str, str | None]:
    """Return the end of a job's log, and the message of an error; None without an error."""
    text, problem = "", None
    try:
        async with asyncio.timeout(_LOG_SECONDS):
            log = await server.logs.open(partial(caller_of, request), release, pod, LogOptions(tail=_LOG_LINES))
            async for chunk in log:
                text = (text + chunk)[-_LOG_CHARACTERS:]
    except (Failure, ClusterError) as error:
        problem = str(error)
    except TimeoutError:
        problem = "the cluster has not sent the whole log in time"
    return visible(text), problem


def flat(values: Mapping[str, object], above: str = "") -> list[tuple[str, str]]:
    """Return filled values as pairs of a path and a text: `process.train.maxStep`, `100`."""
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, list):
            lines += flat({str(index + 1): item for index, item in enumerate(value)}, f"{name}.")
        elif isinstance(value, dict):
            lines += flat(value, f"{name}.")
        else:
            lines.append((visible(name), visible(form.shown(value))))
    return lines


async def _acted(  # noqa: PLR0913, PLR0917 - the parts of the view
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    release: str,
    action: Awaitable[Job],
    then: str = "",
    key: str | None = None,
) -> Response[str]:
    """Return the answer to an action on a job: the view `then`, or of the job that it returns, or of its failure.

    Raises Failure.
    """
    try:
        changed = await action
    except Failure as failure:
        if failure.status in (401, 404):
            raise
        return await _job(request, server, caller, release, failure=failure, rerun_key=key)
    return redirect(then or f"/jobs/{changed.release}")


@post("/jobs/{release:str}/cancel", include_in_schema=False)
async def cancel(
    request: HttpRequest, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
) -> Response[str]:
    """Stop a job."""
    return await _acted(request, server, caller, release, server.jobs.cancel(caller, release))


@post("/jobs/{release:str}/title", include_in_schema=False)
async def rename(
    request: HttpRequest, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
) -> Response[str]:
    """Change the title of a job."""
    title = str((await request.form()).get("title", ""))
    return await _acted(request, server, caller, release, server.jobs.rename(caller, release, title))


@post("/jobs/{release:str}/rerun", include_in_schema=False)
async def rerun(
    request: HttpRequest, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
) -> Response[str]:
    """Create a job from the values of another one."""
    sent = await request.form()
    key, is_pinned = str(sent.get("key") or "") or None, sent.get("pinned") == "true"

    async def create() -> Job:
        checked = await request_key(request, caller, key)
        return await server.jobs.rerun(caller, release, is_pinned=is_pinned, key=checked)

    return await _acted(request, server, caller, release, create(), key=key)


@post("/jobs/{release:str}/delete", include_in_schema=False)
async def delete(
    request: HttpRequest, server: ServerDependency, caller: CallerDependency, release: FromPath[str]
) -> Response[str]:
    """Stop a job, and delete its objects and its record."""
    storage = "delete" if (await request.form()).get("storage") == "delete" else "keep"
    return await _acted(request, server, caller, release, server.jobs.delete(caller, release, storage), "/jobs")


HANDLERS = (job, cancel, rename, rerun, delete)
"""The routes."""
