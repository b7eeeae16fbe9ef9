"""The use case of logs: reads logs of existing pods, and kept logs of deleted ones. Tests: service/api/test_logs.py."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from packager.base import durations
from packager.base.errors import ClusterError, UnreachableError
from packager.base.values import Value, replace
from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.fair_queues import count_down
from packager.service.jobs import kept_logs
from packager.service.jobs.kube import LogOptions, RefusedError, pods_of
from packager.service.store.databases import AwayError
from packager.service.store.store import FINAL
from packager.service.use.streams import guarded, interrupted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from packager.service.access.tokens import Caller
    from packager.service.jobs.kube import Cluster
    from packager.service.store.rows import StoredJob, StoredLog
    from packager.service.store.store import Store

    Authenticate = Callable[[], Awaitable[Caller]]

    _Opened = Callable[[], Awaitable["LogOfPod"]]


_LINES_AHEAD = 100
"""The most lines of several pods that wait for a slow reader."""

_POLL_SECONDS = 2.0

_FIRST_LINE_SECONDS = 1.0

_MOST_FOLLOWED = (400, 120, 40)
"""The most logs that are followed at a time: of all jobs, of the jobs of a project, and by a caller. Each takes a
connection to the cluster."""


class LogOfPod(Value, frozen=True):
    """The log of a pod, whose first line is read before the answer begins.

    Attributes:
        pod: The pod.
        first: The first line; None if it is not read separately, or the log is empty.
        rest: The other lines.
        is_kept: Whether the log comes from the database instead of the cluster.
    """

    pod: str
    first: str | None
    rest: AsyncIterator[str]
    is_kept: bool


class JobLogs(Value, frozen=True):
    """The source of the requested logs of a job.

    Attributes:
        store: The database.
        cluster: The cluster in which the job runs.
        job: The job.
        options: The requested part of the logs.
        kept: The kept logs, without their content.
        live: The names of the existing pods.
    """

    store: Store
    cluster: Cluster
    job: StoredJob
    options: LogOptions
    kept: Sequence[StoredLog]
    live: AbstractSet[str]

    async def opened(self, pod: str) -> LogOfPod:
        """Return the log of a pod, or the kept log if the pod or log was deleted. Raises Failure or ClusterError."""
        if pod not in self.live:
            return await self._from_kept(pod)
        stream = self.cluster.log(pod, self.job.namespace, self.options)
        try:
            return LogOfPod(pod, await anext(stream, None), stream, is_kept=False)
        except ClusterError as error:
            if any(entry.pod == pod for entry in self.kept):
                return await self._from_kept(pod)
            if isinstance(error, RefusedError):
                raise Failure("no-log" if error.is_about_start else "conflict", str(error)) from None
            raise

    async def started(self, pod: str) -> LogOfPod:
        """Return the log of a pod after waiting for its container to start. Raises as `opened`."""
        while True:
            try:
                return await self.opened(pod)
            except Failure as failure:
                if failure.kind != "no-log" or await self._has_ended():
                    raise
            await asyncio.sleep(_POLL_SECONDS)

    async def _has_ended(self) -> bool:
        """Whether the job has ended; False if the database does not answer."""
        try:
            job = await asyncio.to_thread(self.store.job, self.job.release)
        except AwayError:
            return False
        return job is None or job.status in FINAL

    async def _from_kept(self, pod: str) -> LogOfPod:
        options = self.options
        instance = "previous" if options.is_previous else "current"
        entries = [entry for entry in self.kept if (entry.pod, entry.instance) == (pod, instance)]
        main = [entry for entry in entries if entry.place >= 0] or entries
        if options.container is not None:
            main = [entry for entry in entries if entry.container == options.container]
        names = ", ".join(dict.fromkeys(entry.container for entry in entries))
        if not entries:
            when = " before a restart" if options.is_previous else ""
            raise Failure("conflict", f"no log of {pod}{when} was kept")
        if not main:
            raise Failure("conflict", f"no such log of {pod} was kept: the containers are {names}")
        if len(main) > 1:
            raise Failure("conflict", f"choose a container of {pod}: the containers are {names}")
        content = await asyncio.to_thread(self.store.logs.content, main[0])
        lines = kept_logs.kept_lines(content, tail=options.tail, since=options.since, has_times=options.has_times)
        return LogOfPod(pod, None, kept_logs.as_stream(lines), is_kept=True)


class LogQuery(Value, frozen=True):
    """The part of the log of a job to read.

    Attributes:
        pod: The name of the pod; None for all pods: with several, each line begins with the name of its pod.
        container: The name of the container; None for the only one, or the default one.
        tail: The number of lines from the end; None for all.
        since: The time of the first line: a time, or a duration such as 10m; None for all.
        is_previous: Whether the log of a container before its last restart is read.
        is_following: Whether to wait for further lines: of all pods until the job has ended, including pods that start
            later; of one pod until its container ends.
        has_times: Whether each line begins with its time.
    """

    pod: str | None = None
    container: str | None = None
    tail: int | None = None
    since: str | None = None
    is_previous: bool = False
    is_following: bool = False
    has_times: bool = False


class JobLog(Value, frozen=True):
    """The log of a job.

    Attributes:
        lines: The lines, as they are read.
        is_archived: Whether the log was kept, and the pods were deleted.
    """

    lines: AsyncIterator[str]
    is_archived: bool = False


class Logs:
    """The use case of logs.

    Args:
        store: The database.
        cluster: The cluster in which jobs run.
        server: The name of the server in the labels of its objects.

    Attributes:
        places: The places for logs that are followed.
    """

    def __init__(self, store: Store, cluster: Cluster, server: str) -> None:
        self._store = store
        self._cluster = cluster
        self._server = server
        self.places = Places()

    async def open(self, authenticate: Authenticate, release: str, query: LogQuery) -> JobLog:
        """Return the log of a job that the caller owns, or in whose project they act for others.

        Args:
            authenticate: Returns the caller; called again while the log is followed, which ends when the caller may no
                longer read the log.
            release: The release of the job.
            query: The part of the log to read.

        Raises:
            Failure: The caller may not read the log, or the log was not found.
            ClusterError: The cluster does not answer.
        """

        async def check() -> tuple[Caller, StoredJob]:
            caller = await authenticate()
            return caller, await asyncio.to_thread(
                permissions.own_job, caller, release, self._store.job, "read the logs of others", "viewer"
            )

        caller, job = await check()
        kept = await asyncio.to_thread(self._store.logs.of_job, release)
        live = await self._live_pods(job, has_kept=bool(kept))
        chosen = _chosen({*live, *(entry.pod for entry in kept)}, query.pod, follow=query.is_following)
        logs = JobLogs(self._store, self._cluster, job, _options(query), kept, live)
        if not query.is_following:
            first = await logs.opened(chosen[0])  # an error becomes the status of the answer
            return JobLog(interrupted(_in_turn(chosen, first, logs.opened)), first.is_kept and not set(chosen) & live)
        owner = (job.project, caller.key)
        if not self.places.has_room(*owner):
            raise Failure("too-many-requests", f"too many logs are followed: {_limits_of_followed()}")
        followed, is_kept = await self._followed(logs, chosen, query, owner)
        return JobLog(guarded(followed, check), is_kept and not set(chosen) & live)

    async def _followed(
        self, logs: JobLogs, chosen: Sequence[str], query: LogQuery, owner: tuple[str, str]
    ) -> tuple[AsyncGenerator[str], bool]:
        """Return lines as they are written, and whether the log was kept."""
        begun: dict[str, _Opened] = {name: partial(logs.started, name) for name in chosen}
        is_kept = False
        if len(chosen) == 1:
            # An error becomes the status of the answer. But a kubelet does not answer before the first line, for which
            # the request must not wait in the place of others.
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LINE_SECONDS):
                    first = await logs.opened(chosen[0])
                begun, is_kept = {chosen[0]: partial(_at_hand, first)}, first.is_kept
        is_growing = query.pod is None and not query.is_previous and logs.job.status not in FINAL
        return Followed(logs, self.places, owner).lines(begun, is_growing=is_growing or len(chosen) > 1), is_kept

    async def _live_pods(self, job: StoredJob, *, has_kept: bool) -> set[str]:
        """Return the names of a job's pods; no names if the cluster does not answer and logs were kept."""
        try:
            items = await pods_of(self._cluster, job.namespace, job.release, self._server)
        except UnreachableError:
            if has_kept:
                return set()
            raise
        return {item["metadata"]["name"] for item in items}


def _options(query: LogQuery) -> LogOptions:
    """Return the options of a query for the cluster. Raises Failure."""
    try:
        begin = durations.moment(query.since, datetime.now(UTC)) if query.since else None
    except ValueError as error:
        raise Failure("invalid-query", f"since: {error}") from None
    return LogOptions(query.container, query.tail, begin, query.is_previous, query.is_following, query.has_times)


async def _at_hand(log: LogOfPod) -> LogOfPod:
    return log


async def _in_turn(
    pods: Sequence[str], first: LogOfPod, opened: Callable[[str], Awaitable[LogOfPod]]
) -> AsyncGenerator[str]:
    """Yield the lines of the first pod, whose log is open, and then of the other pods."""
    for name in pods:
        prefix = f"{name}: " if len(pods) > 1 else ""
        try:
            log = first if name == pods[0] else await opened(name)
            if log.first is not None:
                yield prefix + log.first
            async for line in log.rest:
                yield prefix + line
        except (ClusterError, Failure) as error:
            yield f"{prefix}[{error}]\n"


def _chosen(pods: set[str], pod: str | None, *, follow: bool) -> list[str]:
    """Return the names of the requested pods: one, or all. Raises Failure."""
    names = sorted(pods)
    if not names:
        raise Failure("no-log", "the job has no pod: it has not started, or its pods were deleted")
    if pod is not None and pod not in names:
        raise Failure("not-found", f"pod {pod!r} not found: the pods are {', '.join(names)}")
    if follow and pod is None and len(names) > kept_logs.MOST_PODS:
        raise Failure("conflict", f"follow takes {kept_logs.MOST_PODS} pods at most: name one of {', '.join(names)}")
    return names if pod is None else [pod]


class Followed:
    """The logs of the existing pods of a job and of pods that start later, merged as lines are written.

    With several pods, each line begins with the name of its pod.

    Args:
        logs: The source of the logs.
        places: The places for followed logs; a log without a place waits for one.
        owner: The project of the job and the key of the caller.
    """

    def __init__(self, logs: JobLogs, places: Places, owner: tuple[str, str]) -> None:
        self._logs = logs
        self._places = places
        self._owner = owner
        self._lines: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue(_LINES_AHEAD)
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._begun = logs.job.pod_names
        self._open = 0

    async def lines(self, begun: Mapping[str, _Opened], *, is_growing: bool) -> AsyncGenerator[str]:
        """Yield the lines until all logs have ended.

        Args:
            begun: The functions that open the logs of the existing pods, by the names of the pods.
            is_growing: Whether the logs of pods that start later are read too, until the job has ended.
        """
        for pod, opened in begun.items():
            self._begin(pod, opened)
        later = [asyncio.create_task(self._begin_later())] if is_growing else []
        self._open += len(later)
        try:
            while self._open:
                pod, line = await self._lines.get()
                if line is None:
                    self._open -= 1
                else:
                    yield f"{pod}: {line}" if len(self._readers) > 1 else line
        finally:
            tasks = (*later, *self._readers.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, pod: str, opened: _Opened) -> None:
        self._begun.add(pod)
        self._open += 1
        self._readers[pod] = asyncio.create_task(self._read(pod, opened))

    async def _begin_later(self) -> None:
        """Begin to read the logs of pods that start later, until the job has ended."""
        is_over = self._logs.job.status in FINAL
        while not is_over:
            await asyncio.sleep(_POLL_SECONDS)
            with suppress(AwayError):
                is_over = await self._look()
        await self._lines.put(("", None))

    async def _look(self) -> bool:
        """Begin to read the logs of new pods; return whether the job has ended."""
        release, store = self._logs.job.release, self._logs.store
        job = await asyncio.to_thread(store.job, release)
        if job is None:
            return True
        is_over = job.status in FINAL
        live = job.pod_names - self._begun
        kept = await asyncio.to_thread(store.logs.of_job, release) if live or is_over else []
        gone = {entry.pod for entry in kept} - self._begun - live if is_over else set()
        room = kept_logs.MOST_PODS - sum(not reader.done() for reader in self._readers.values())
        logs = replace(self._logs, options=replace(self._logs.options, tail=None), kept=kept, live=live)
        for pod in sorted(live | gone)[: max(0, room)]:
            self._begin(pod, partial(logs.started, pod))
        return is_over

    async def _read(self, pod: str, opened: _Opened) -> None:
        """Put the lines of a log into the queue, and None at its end."""
        is_waiting = False
        while not self._places.take(*self._owner):
            if not is_waiting:
                await self._lines.put((pod, f"[waits until fewer logs are followed: {_limits_of_followed()}]\n"))
            is_waiting = True
            await asyncio.sleep(_POLL_SECONDS)
        try:
            log = await opened()
            if log.first is not None:
                await self._lines.put((pod, log.first))
            async for line in log.rest:
                await self._lines.put((pod, line))
        except (ClusterError, Failure) as error:
            await self._lines.put((pod, f"[{error}]\n"))
        except AwayError:  # the message may name hosts and users
            await self._lines.put((pod, "[the database does not answer]\n"))
        finally:
            self._places.free(*self._owner)
        await self._lines.put((pod, None))


def _limits_of_followed() -> str:
    everybody, project, caller = _MOST_FOLLOWED
    return f"at most {caller} by a caller, {project} of a project and {everybody} of all"


class Places:
    """Counts the logs that are followed.

    Attributes:
        projects: The number of followed logs of each project.
        callers: The number of logs that each caller follows, by key.
    """

    def __init__(self) -> None:
        self.projects: Counter[str] = Counter()
        self.callers: Counter[str] = Counter()

    def has_room(self, project: str, caller: str) -> bool:
        """Whether there is a place."""
        counts = (self.projects.total(), self.projects[project], self.callers[caller])
        return all(count < most for count, most in zip(counts, _MOST_FOLLOWED, strict=True))

    def take(self, project: str, caller: str) -> bool:
        """Take a place, if there is one."""
        if not self.has_room(project, caller):
            return False
        self.projects[project] += 1
        self.callers[caller] += 1
        return True

    def free(self, project: str, caller: str) -> None:
        """Give back a place."""
        count_down(self.projects, project)
        count_down(self.callers, caller)
