"""The view of a job, and the actions on a job."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from litestar import Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery

from packager.base.errors import ClusterError
from packager.diagnosis.curves.figure import figures
from packager.service.access import permissions
from packager.service.api.access import HttpRequest, caller_of, request_key, server_of
from packager.service.failures import Failure
from packager.service.page import inputs
from packager.service.page.html import redirect, respond, visible
from packager.service.page.keys import next_key
from packager.service.store.store import FINAL
from packager.service.use.logs import LogQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.kubernetes.objects import Object
    from packager.service.access.tokens import Caller
    from packager.service.server import Server
    from packager.service.use.answers import Callback

_MOST_SHOWN = 50
_LOG_LINES = 200
_LOG_CHARACTERS = 128 << 10
_LOG_SECONDS = 3.0


@get("/jobs/{release:str}", include_in_schema=False)
async def _job(
    request: HttpRequest, state: State, release: FromPath[str], pod: FromQuery[str | None] = None
) -> Response[str]:
    return await _shown(request, state, release, pod)


async def _shown(  # noqa: PLR0913 - the parts of the view
    request: HttpRequest,
    state: State,
    release: str,
    pod: str | None = None,
    failure: Failure | None = None,
    *,
    rerun_key: str | None = None,
) -> Response[str]:
    """Return the view of a job.

    Args:
        request: The request.
        state: The state of the application.
        release: The release of the job.
        pod: The pod whose log is shown; None for all pods.
        failure: The failure of an action on the job; None without one.
        rerun_key: The key with which the job was to be run again; None for another action.

    Raises:
        Failure: The caller may not see the job.
    """
    server, caller = server_of(state), await caller_of(request)
    job = await server.jobs.job(caller, release)
    history = await server.events.latest(caller, release, _MOST_SHOWN)
    manifests = await server.jobs.manifests(caller, release)
    is_own = permissions.owns(caller, job.owner, job.project)
    is_logarithmic = request.query_params.get("scale") == "log"
    pods = [item["name"] for item in job.pods]
    chosen = pod if pod in pods else None
    log, log_problem = await _log(request, server, release, chosen or (pods[0] if len(pods) == 1 else None))
    return await respond(
        request,
        "job",
        failure.status if failure else 200,
        job=job,
        history=history,
        figures=figures(await server.jobs.curves(caller, release), is_logarithmic=is_logarithmic),
        is_logarithmic=is_logarithmic,
        deliveries=(await _deliveries(server, caller, release))[-_MOST_SHOWN:] if is_own else (),
        manifests=manifests,
        objects=[f"{item['kind']} {item['metadata']['name']}" for item in manifests if not _is_claim(item)],
        claims=[item["metadata"]["name"] for item in manifests if _is_claim(item)],
        values=flat(job.values),
        may_change=is_own and caller.may("user", job.project),
        has_ended=job.status in FINAL,
        log=log,
        log_problem=log_problem,
        pod=chosen,
        failure=failure,
        key=next_key(rerun_key, failure),
        after=history[-1].id if history else await server.events.position(),
    )


async def _deliveries(server: Server, caller: Caller, release: str) -> list[Callback]:
    """Return the callbacks of a job; none if the caller may not see them."""
    try:
        listed = await server.jobs.callbacks(caller, release)
    except Failure as failure:
        if failure.status != 403:
            raise
        return []
    return listed.items


def _is_claim(item: Object) -> bool:
    return str(item["kind"]) == "PersistentVolumeClaim"


async def _log(request: HttpRequest, server: Server, release: str, pod: str | None) -> tuple[str, str | None]:
    """Return the end of a job's log, and the message of an error; None without an error."""
    text = ""
    try:
        async with asyncio.timeout(_LOG_SECONDS):
            log = await server.logs.open(partial(caller_of, request), release, LogQuery(pod=pod, tail=_LOG_LINES))
            async for line in log.lines:
                text = (text + line)[-_LOG_CHARACTERS:]
    except (Failure, ClusterError) as error:
        return visible(text), str(error)
    except TimeoutError:
        return visible(text), "the cluster has not sent the whole log in time"
    return visible(text), None


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
            lines.append((visible(name), visible(inputs.shown(value))))
    return lines


@post("/jobs/{release:str}/callbacks/{identifier:str}", include_in_schema=False)
async def _redeliver(
    request: HttpRequest, state: State, release: FromPath[str], identifier: FromPath[str]
) -> Response[str]:
    await server_of(state).jobs.redeliver(await caller_of(request), release, identifier)
    return redirect(f"/jobs/{release}#callbacks")


@post("/jobs/{release:str}/cancel", include_in_schema=False)
async def _cancel(request: HttpRequest, state: State, release: FromPath[str]) -> Response[str]:
    try:
        await server_of(state).jobs.cancel(await caller_of(request), release)
    except Failure as failure:
        return await _refused(request, state, release, failure)
    return redirect(f"/jobs/{release}")


@post("/jobs/{release:str}/title", include_in_schema=False)
async def _rename(request: HttpRequest, state: State, release: FromPath[str]) -> Response[str]:
    title = str((await request.form()).get("title", ""))
    try:
        await server_of(state).jobs.rename(await caller_of(request), release, title)
    except Failure as failure:
        return await _refused(request, state, release, failure)
    return redirect(f"/jobs/{release}")


@post("/jobs/{release:str}/rerun", include_in_schema=False)
async def _rerun(request: HttpRequest, state: State, release: FromPath[str]) -> Response[str]:
    form = await request.form()
    key = str(form.get("key") or "") or None
    try:
        caller = await caller_of(request)
        checked = await request_key(request, caller, key)
        is_pinned = form.get("pinned") == "true"
        job = await server_of(state).jobs.rerun(caller, release, is_pinned=is_pinned, key=checked)
    except Failure as failure:
        return await _refused(request, state, release, failure, key)
    return redirect(f"/jobs/{job.release}")


@post("/jobs/{release:str}/delete", include_in_schema=False)
async def _delete(request: HttpRequest, state: State, release: FromPath[str]) -> Response[str]:
    storage = "delete" if (await request.form()).get("storage") == "delete" else "keep"
    try:
        await server_of(state).jobs.delete(await caller_of(request), release, storage)
    except Failure as failure:
        return await _refused(request, state, release, failure)
    return redirect("/jobs")


async def _refused(
    request: HttpRequest, state: State, release: str, failure: Failure, rerun_key: str | None = None
) -> Response[str]:
    """Return the view of a job with the message of a failed action. Raises Failure for an invisible job."""
    if failure.status in (401, 404):
        raise failure
    return await _shown(request, state, release, failure=failure, rerun_key=rerun_key)


HANDLERS = (_job, _redeliver, _cancel, _rename, _rerun, _delete)
"""The routes."""
