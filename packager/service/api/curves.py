"""The route of the curves of a job."""

from __future__ import annotations

from litestar import get
from litestar.datastructures import State
from litestar.params import FromPath

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.use import answers
from packager.service.use.answers import MetricList


@get("/v1/jobs/{release:str}/metrics")
async def job_metrics(request: HttpRequest, state: State, release: FromPath[str]) -> MetricList:
    """Return the curves of a job, from the lines of JSON with a `step` that its pods have printed."""
    curves = await server_of(state).jobs.curves(await caller_of(request), release)
    return MetricList(items=[answers.metric(curve) for curve in curves])


HANDLERS = (job_metrics,)
"""The routes."""
