"""The metrics of a server for Prometheus. Only this module imports prometheus-client.

Labels have few values: routes and not paths, projects and not jobs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily

from packager import __version__
from packager.service.store.databases import AwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format of the metrics, which every version of Prometheus reads."""

NO_ROUTE = "none"
"""The route of a request with a path or a method that does not exist."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_ANSWERS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_READ_SECONDS = 5.0
"""The time limit of the database."""


Load = tuple[dict[tuple[str, str], int], dict[tuple[str, str], int], int]
"""The numbers of jobs that have not ended, and of their GPUs, by project and status; and of waiting callbacks."""


class Figures:
    """The metrics of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # these would double our series
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Gauge("mlpack_build_info", "The version of mlpack.", ["version"], registry=registry).labels(__version__).set(1)
        self._requests = Counter(
            "mlpack_http_requests", "Requests that were answered.", ["method", "route", "status"], registry=registry
        )
        self._answers = Histogram(
            "mlpack_http_request_duration_seconds",
            "Time until an answer begins.",
            ["method", "route"],
            registry=registry,
            buckets=_ANSWERS,
        )
        self._ended = Counter("mlpack_jobs_ended", "Jobs that have ended.", ["project", "status"], registry=registry)
        self._stored = _DatabaseFigures()
        registry.register(self._stored)

    # recording

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a response."""
        method, route = method if method in _METHODS else "other", route or NO_ROUTE
        self._requests.labels(method, route, str(status)).inc()
        self._answers.labels(method, route).observe(seconds)

    def ended(self, project: str, status: str) -> None:
        """Count an ended job."""
        self._ended.labels(project, status).inc()

    # reporting

    async def text(self, read: Callable[[], Load]) -> str:
        """Return the metrics in the format of Prometheus; `read` returns the content of the database."""
        self._stored.load = None
        with suppress(AwayError, TimeoutError):
            async with asyncio.timeout(_READ_SECONDS):
                self._stored.load = await asyncio.to_thread(read)
        return (await asyncio.to_thread(generate_latest, self._registry)).decode()


class _DatabaseFigures:
    """A collector of the values from the database. Series that have left the database are not reported."""

    def __init__(self) -> None:
        self.load: Load | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "mlpack_database_up", "Whether the database answers.", value=float(self.load is not None)
        )
        if self.load is None:
            return
        jobs, gpus, callbacks = self.load
        for name, help_text, counts in (
            ("mlpack_jobs", "Jobs that have not ended.", jobs),
            ("mlpack_job_gpus", "GPUs of jobs that have not ended.", gpus),
        ):
            family = GaugeMetricFamily(name, help_text, labels=["project", "status"])
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family
        yield GaugeMetricFamily("mlpack_callbacks_waiting", "Callbacks to be delivered.", value=callbacks)
