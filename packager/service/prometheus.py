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
from packager.base.values import Value
from packager.service.store.databases import AwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format of the metrics, which every version of Prometheus reads."""

PATH = "/metrics"

OUTCOMES = ("delivered", "waiting", "gone", "given-up")
"""The outcomes of an attempt to deliver a callback; `waiting` is a failed attempt that is repeated later."""

NO_ROUTE = "none"
"""The route of a request with a path or a method that does not exist."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_ANSWERS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RENDERINGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_DELAYS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_READ_SECONDS = 5.0
"""The time limit of the database."""


class Load(Value, frozen=True):
    """The jobs and callbacks in the database."""

    jobs: Mapping[tuple[str, str], int]  # the number of jobs that have not ended, by project and status
    gpus: Mapping[tuple[str, str], int]  # the number of GPUs of these jobs, by project and status
    callbacks: int  # the number of callbacks that wait for delivery


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
        requests = Gauge("mlpack_http_requests_open", "Requests at work, streams among them.", registry=registry)
        self.request = requests.track_inprogress  # counts a request as open while a block runs
        self.rendered = Histogram(
            "mlpack_rendering_duration_seconds",
            "Time to check a template or to fill it in, with the wait for the process that does it.",
            registry=registry,
            buckets=_RENDERINGS,
        ).observe
        # observes the seconds from the news of a job's change until the change was stored
        self.stored = Histogram(
            "mlpack_loop_delay_seconds",
            "Time from when a change of a job is known until it is stored.",
            registry=registry,
            buckets=_DELAYS,
        ).observe
        # sets the function that counts them
        self.waiting = Gauge(
            "mlpack_loop_waiting_jobs", "Jobs that wait to be looked at.", registry=registry
        ).set_function
        self._watches = Gauge("mlpack_watches", "Watches on the cluster.", ["kind"], registry=registry)
        self._failures = Counter("mlpack_watch_failures", "Watches that have failed.", ["kind"], registry=registry)
        self._ended = Counter("mlpack_jobs_ended", "Jobs that have ended.", ["project", "status"], registry=registry)
        self._attempts = Counter(
            "mlpack_callback_attempts", "Attempts to deliver a callback.", ["outcome"], registry=registry
        )
        self._deliveries = Histogram(
            "mlpack_callback_duration_seconds", "Time of an attempt.", registry=registry, buckets=_ANSWERS
        )
        for outcome in OUTCOMES:
            self._attempts.labels(outcome)
        self._stored = _DatabaseFigures()
        registry.register(self._stored)

    # recording

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a response."""
        method, route = method if method in _METHODS else "other", route or NO_ROUTE
        self._requests.labels(method, route, str(status)).inc()
        self._answers.labels(method, route).observe(seconds)

    def watch(self, kind: str) -> AbstractContextManager[object]:
        """Count a watch while the block runs."""
        return self._watches.labels(kind).track_inprogress()

    def watch_failed(self, kind: str) -> None:
        """Count a failed watch."""
        self._failures.labels(kind).inc()

    def ended(self, project: str, status: str) -> None:
        """Count an ended job."""
        self._ended.labels(project, status).inc()

    def attempted(self, outcome: str, seconds: float) -> None:
        """Count an attempt to deliver a callback: its outcome, one of OUTCOMES, and its seconds."""
        self._attempts.labels(outcome).inc()
        self._deliveries.observe(seconds)

    # reporting

    async def text(self, read: Callable[[], Load]) -> bytes:
        """Return the metrics in the format of Prometheus; `read` returns the content of the database."""
        self._stored.load = None
        with suppress(AwayError, TimeoutError):
            async with asyncio.timeout(_READ_SECONDS):
                self._stored.load = await asyncio.to_thread(read)
        return await asyncio.to_thread(generate_latest, self._registry)


class _DatabaseFigures:
    """A collector of the values from the database. Series that have left the database are not reported."""

    def __init__(self) -> None:
        self.load: Load | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "mlpack_database_up", "Whether the database answers.", value=float(self.load is not None)
        )
        load = self.load
        if load is None:
            return
        for name, help_text, counts in (
            ("mlpack_jobs", "Jobs that have not ended.", load.jobs),
            ("mlpack_job_gpus", "GPUs of jobs that have not ended.", load.gpus),
        ):
            family = GaugeMetricFamily(name, help_text, labels=["project", "status"])
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family
        yield GaugeMetricFamily("mlpack_callbacks_waiting", "Callbacks to be delivered.", value=load.callbacks)
