"""The route of logs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from litestar import MediaType, get
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from packager.service.api import document
from packager.service.api.access import HttpRequest, caller_of, door_of, server_of
from packager.service.use.logs import LogQuery


@get(
    "/v1/jobs/{release:str}/logs",
    responses={200: document.answer(str, "The log", MediaType.TEXT)},
)
async def job_logs(  # noqa: PLR0913, PLR0917 - the parameters of the query
    request: HttpRequest,
    state: State,
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

    `previous` selects the log of a container before its last restart. `follow` of all pods continues until the job has
    ended, and includes pods that start later; `follow` of one pod continues until its container ends. With
    `timestamps`, each line begins with its time. The end of the log is kept after the pods are deleted; the answer then
    has the header `X-Mlpack-Log: archived`.
    """
    if follow:
        door_of(state).begin_stream(request)
    query = LogQuery(pod, container, tail, since, previous, follow, timestamps)
    log = await server_of(state).logs.open(partial(caller_of, request), release, query)
    headers = {"X-Mlpack-Log": "archived"} if log.is_archived else {}
    return Stream(log.lines, media_type="text/plain", headers=headers)


HANDLERS = (job_logs,)
"""The routes."""
