"""The route of logs: of pods that exist, and those that were kept of pods that are gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from litestar import MediaType, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from packager.base.errors import ClusterError, UnreachableError
from packager.base.values import Value
from packager.service import keeper, permissions, policy, times
from packager.service.api.access import AnyRequest, caller_of, server_of
from packager.service.failures import Failure
from packager.service.kube import RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from packager.service.server import Server
    from packager.service.store.store import Row


class LogQuery(Value, frozen=True):
    """Which part of which log is asked for."""

    container: str | None
    tail: int | None
    since: datetime | None
    previous: bool
    follow: bool


class LogOfPod(Value, frozen=True):
    """The log of a pod, with its first line, which is read before the answer begins.

    Attributes:
        pod: The pod.
        first: The first line; None if there is none.
        rest: The others.
        is_kept: Whether it was kept, and does not come from the cluster.
    """

    pod: str
    first: str | None
    rest: AsyncIterator[str]
    is_kept: bool


@get(
    "/v1/jobs/{release:str}/logs",
    responses={200: ResponseSpec(str, generate_examples=False, media_type=MediaType.TEXT, description="The log")},
)
async def job_logs(  # noqa: PLR0913, PLR0917 - the parameters of the query
    request: AnyRequest,
    state: State,
    release: FromPath[str],
    pod: FromQuery[str | None] = None,
    container: FromQuery[str | None] = None,
    tail: Annotated[int | None, QueryParameter(ge=0, le=1_000_000)] = None,
    since: Annotated[str | None, QueryParameter(description="A time, or a duration such as 10m.")] = None,
    previous: FromQuery[bool] = False,  # noqa: FBT002
    follow: FromQuery[bool] = False,  # noqa: FBT002
) -> Stream:
    """Return the log of a job's pods; with several, each line begins with its pod's name.

    `previous` means what a container has written before its last restart. The end of the log is kept when the pods are
    gone; the answer then has the header `X-Mlpack-Log: archived`.
    """
    caller = await caller_of(request, "viewer")
    server = server_of(state)
    row = await server.tasks.job(release, caller)
    permissions.check_owns_job(caller, row, "read the logs of others")
    try:
        begin = times.moment(since, datetime.now(UTC)) if since else None
    except ValueError as error:
        raise Failure("invalid-query", f"since: {error}") from None
    query = LogQuery(container, tail, begin, previous, follow)
    kept = await asyncio.to_thread(server.store.logs.of_job, release)
    live = await _live_pods(server, row, has_kept=bool(kept))
    chosen = _chosen({*live, *(entry["pod"] for entry in kept)}, pod, follow=follow)
    first = await _opened(server, row, chosen[0], query, kept, is_live=chosen[0] in live)  # its error is an answer

    async def text() -> AsyncIterator[str]:
        for name in chosen:
            prefix = f"{name}: " if len(chosen) > 1 else ""
            try:
                log = first
                if name != chosen[0]:
                    log = await _opened(server, row, name, query, kept, is_live=name in live)
                if log.first is not None:
                    yield prefix + log.first
                async for line in log.rest:
                    yield prefix + line
            except (ClusterError, Failure) as error:
                yield f"{prefix}[{error}]\n"

    is_archived = first.is_kept and not set(chosen) & live
    return Stream(text(), media_type="text/plain", headers={"X-Mlpack-Log": "archived"} if is_archived else {})


def _chosen(pods: set[str], pod: str | None, *, follow: bool) -> list[str]:
    """Return the pods whose log is asked for: one, or all. Raises Failure."""
    names = sorted(pods)
    if not names:
        raise Failure("conflict", "the job has no pod: it has not started, or its pods were deleted")
    if pod is not None and pod not in names:
        raise Failure("not-found", f"pod {pod!r} not found: the pods are {', '.join(names)}")
    if follow and pod is None and len(names) > 1:
        raise Failure("conflict", f"follow needs one pod: the pods are {', '.join(names)}")
    return names if pod is None else [pod]


async def _live_pods(server: Server, row: Row, *, has_kept: bool) -> set[str]:
    """Return the names of a job's pods; none if the cluster is away and logs were kept."""
    try:
        selector = {policy.JOB: row["release"], policy.SERVER: server.name}
        items, _ = await server.cluster.list("Pod", row["namespace"], selector)
    except UnreachableError:
        if has_kept:
            return set()
        raise
    return {item["metadata"]["name"] for item in items}


async def _opened(  # noqa: PLR0913 - what a log is found by
    server: Server, row: Row, pod: str, query: LogQuery, kept: list[Row], *, is_live: bool
) -> LogOfPod:
    """Return the log of a pod; the kept one if the pod is gone, or its log is. Raises Failure or ClusterError."""
    own = [entry for entry in kept if entry["pod"] == pod]
    if not is_live:
        return await _from_kept(server, own, pod, query)
    stream = server.cluster.log(
        pod,
        row["namespace"],
        query.container,
        tail=query.tail,
        since=query.since,
        previous=query.previous,
        follow=query.follow,
    )
    try:
        return LogOfPod(pod, await anext(stream, None), stream, is_kept=False)
    except ClusterError as error:
        if own:
            return await _from_kept(server, own, pod, query)
        if isinstance(error, RefusedError):
            raise Failure("conflict", str(error)) from None
        raise


async def _from_kept(server: Server, own: list[Row], pod: str, query: LogQuery) -> LogOfPod:
    instance = "previous" if query.previous else "current"
    entries = [entry for entry in own if entry["instance"] == instance]
    main = [entry for entry in entries if entry["place"] >= 0] or entries
    if query.container is not None:
        main = [entry for entry in entries if entry["container"] == query.container]
    names = ", ".join(dict.fromkeys(entry["container"] for entry in entries))
    if not main:
        raise Failure("conflict", f"no such log of {pod} was kept: the containers are {names or 'none'}")
    if len(main) > 1:
        raise Failure("conflict", f"choose a container of {pod}: the containers are {names}")
    content = await asyncio.to_thread(server.store.logs.content, main[0])
    lines = keeper.kept_lines(content, tail=query.tail, since=query.since)
    return LogOfPod(pod, None, keeper.as_stream(lines), is_kept=True)


HANDLERS = (job_logs,)
"""The routes."""
