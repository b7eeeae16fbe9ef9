"""The figures of a server for Prometheus: the only importer of prometheus-client.

Labels have few values: routes and not paths, projects and not jobs. Each replica tells what it does itself; what the
database contains is told by the replica that leads, so that the sum over all replicas is true.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format of the figures, which every version of Prometheus reads."""

PATH = "/metrics"

OUTCOMES = ("delivered", "waiting", "gone", "given-up")
"""What an attempt to deliver a callback may come to; `waiting` is an attempt that has failed and is made again."""

NO_ROUTE = "none"
"""The route of a request to a path or with a method that does not exist."""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_ANSWERS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RENDERINGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_DELAYS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_FRESH_SECONDS = 1.0
"""For how long what was read from the database is told again: however many ask, it is read once a second."""

_READ_SECONDS = 5.0
"""How long the database may take."""


class Load(Value, frozen=True):
    """What the database contains.

    Attributes:
        jobs: How many jobs that have not ended there are, by project and status.
        gpus: How many GPUs they take, likewise.
        callbacks: How many callbacks wait to be delivered.
    """

    jobs: Mapping[tuple[str, str], int]
    gpus: Mapping[tuple[str, str], int]
    callbacks: int


class Figures:
    """The figures of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each of ours
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Gauge("mlpack_build_info", "The version of mlpack.", ["version"], registry=registry).labels(__version__).set(1)
        self._leader = Gauge("mlpack_leader", "Whether this replica looks after jobs and callbacks.", registry=registry)
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
        self._open = Gauge("mlpack_http_requests_open", "Requests at work, streams among them.", registry=registry)
        self._renderings = Histogram(
            "mlpack_rendering_duration_seconds",
            "Time to check a template or to fill it in, with the wait for the process that does it.",
            registry=registry,
            buckets=_RENDERINGS,
        )
        self._delay = Histogram(
            "mlpack_loop_delay_seconds",
            "Time from when a change of a job is known until it is stored.",
            registry=registry,
            buckets=_DELAYS,
        )
        self._changed = Gauge("mlpack_loop_waiting_jobs", "Jobs that wait to be looked at.", registry=registry)
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
        self._read: Callable[[], Load] | None = None
        self._reading: asyncio.Task[Load | None] | None = None
        self._read_at = -_FRESH_SECONDS

    # what happens

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request as open for as long as the block runs."""
        self._open.inc()
        try:
            yield
        finally:
            self._open.dec()

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count an answer.

        Args:
            method: The request's method.
            route: The template of its path; None if it has no route.
            status: The status of the answer.
            seconds: How long after the request it begins.
        """
        method, route = method if method in _METHODS else "other", route or NO_ROUTE
        self._requests.labels(method, route, str(status)).inc()
        self._answers.labels(method, route).observe(seconds)

    def rendered(self, seconds: float) -> None:
        """Note how long a template took."""
        self._renderings.observe(seconds)

    def stored(self, seconds: float) -> None:
        """Note how long after a change of a job was known it is stored."""
        self._delay.observe(seconds)

    def waiting(self, count: Callable[[], int]) -> None:
        """Set what returns how many jobs wait to be looked at."""
        self._changed.set_function(count)

    @contextmanager
    def watch(self, kind: str) -> Iterator[None]:
        """Count a watch for as long as the block runs."""
        gauge = self._watches.labels(kind)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    def watch_failed(self, kind: str) -> None:
        """Count a watch that has failed."""
        self._failures.labels(kind).inc()

    def ended(self, project: str, status: str) -> None:
        """Count a job that has ended."""
        self._ended.labels(project, status).inc()

    def attempted(self, outcome: str, seconds: float) -> None:
        """Count an attempt to deliver a callback: one of OUTCOMES, and how long it took."""
        self._attempts.labels(outcome).inc()
        self._deliveries.observe(seconds)

    @contextmanager
    def leading(self, read: Callable[[], Load]) -> Iterator[None]:
        """Tell what the database contains for as long as the block runs: this replica leads."""
        self._read = read
        self._leader.set(1)
        try:
            yield
        finally:
            self._read = None
            self._leader.set(0)
            self._stored.load = None

    # what is told

    async def text(self, ping: Callable[[], None]) -> bytes:
        """Return the figures as Prometheus reads them.

        Args:
            ping: Raises MlpackError unless the database answers; called where this replica does not lead.
        """
        await self._refresh(ping)
        return await asyncio.to_thread(generate_latest, self._registry)

    async def _refresh(self, ping: Callable[[], None]) -> None:
        """Read the database, unless that was just done, or is still being done."""
        now = time.monotonic()
        if self._reading is None or (self._reading.done() and now - self._read_at >= _FRESH_SECONDS):
            self._read_at = now
            self._reading = asyncio.create_task(asyncio.to_thread(_loaded, self._read, ping))
        reading = self._reading
        await asyncio.wait([reading], timeout=_READ_SECONDS)
        is_known = reading.done() and not reading.cancelled() and reading.exception() is None
        self._stored.is_up = is_known
        self._stored.load = reading.result() if is_known and self._read else None


def _loaded(read: Callable[[], Load] | None, ping: Callable[[], None]) -> Load | None:
    if read is None:
        ping()
        return None
    return read()


class _DatabaseFigures:
    """Tells what the database contains; what it no longer contains is not told."""

    def __init__(self) -> None:
        self.is_up = False
        self.load: Load | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("mlpack_database_up", "Whether the database answers.", value=float(self.is_up))
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


def app(figures: Figures, ping: Callable[[], None]) -> Callable[..., Awaitable[None]]:
    """Return an application that answers GET /metrics, asks for no token, and has nothing else."""

    async def answer(scope: Mapping[str, Any], _receive: Any, send: Callable[..., Awaitable[None]]) -> None:
        if scope["type"] != "http":
            return
        is_found, is_read = scope["path"] == PATH, scope["method"] in ("GET", "HEAD")
        status = 200 if is_found and is_read else 405 if is_found else 404
        body = await figures.text(ping) if status == 200 else b""
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        if status == 405:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return answer
