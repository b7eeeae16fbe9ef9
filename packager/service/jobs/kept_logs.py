"""Keeps the ends of logs, so that they can be read after the deletion of the pods, and reads kept logs."""

from __future__ import annotations

import asyncio
import re
import sys
import zlib
from collections import deque
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import name
from packager.service.fair_queues import Owner, Turns
from packager.service.jobs.kube import LogOptions, pods_of
from packager.service.store.rows import StoredLog
from packager.service.times import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.jobs.kube import Cluster
    from packager.service.store.kept_logs import KeptLogs
    from packager.service.store.rows import StoredStatus

MOST_BYTES = 256 << 10
"""The maximum size of a container's kept log."""

MOST_PODS = 20
MOST_BYTES_OF_A_JOB = 5 << 20

_SECONDS = 20.0
_CURVES_SECONDS = 5.0
_LOG_SECONDS = 5.0
"""The time limits for reading all logs of a job, its curves, and one log. If a node does not answer, the logs of the
pods on other nodes are kept."""

_AT_ONCE = (8, 5, 5)
"""The most jobs whose logs are read at a time: in total, of a project, and of an owner, who is the whole project."""

_LINES = 10_000  # with their times, so many lines are larger than MOST_BYTES
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(?:\.[0-9]+)?(Z|[+-][0-9:]{5}) ")


class Instance(Value, frozen=True):
    """One run of a container.

    Attributes:
        pod: The name of the pod.
        container: The name of the container.
        place: The index of the container in its pod; negative for init containers.
        is_previous: Whether this is the run before the last restart.
        has_failed: Whether the run has ended with an error.
    """

    pod: str
    container: str
    place: int
    is_previous: bool
    has_failed: bool


def instances(pod: Object) -> Iterator[Instance]:
    """Yield the current and the previous runs of the containers of a pod, if they have started."""
    status = mapping(pod.get("status"))
    for key, sign in (("initContainerStatuses", -1), ("containerStatuses", 1)):
        entries = [mapping(entry) for entry in listing(status.get(key))]
        for index, entry in enumerate(entries):
            place = index - len(entries) if sign < 0 else index
            for state, is_previous in ((mapping(entry.get("state")), False), (mapping(entry.get("lastState")), True)):
                ended = state.get("terminated")
                if ended is not None or (state.get("running") is not None and not is_previous):
                    failed = bool(mapping(ended).get("exitCode"))
                    yield Instance(name(pod), str(entry.get("name")), place, is_previous, failed)


class Keeper:
    """Keeps the logs of the jobs of one server.

    Args:
        cluster: The cluster in which the jobs run.
        kept: The storage of kept logs.
        server: The name of the server in the labels of its objects.
        look_at: Called with the release when the logs of an ended job have been kept.
        log: Writes a line to the log of the server.
        record: Records the curves of a job, from the job and its pods.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        cluster: Cluster,
        kept: KeptLogs,
        server: str,
        look_at: Callable[[str], None],
        log: Callable[[str], None],
        record: Callable[[StoredStatus, Sequence[Object]], Awaitable[None]] | None = None,
    ) -> None:
        self._cluster = cluster
        self._kept = kept
        self._server = server
        self._look_at = look_at
        self._log = log
        self._record = record
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: set[str] = set()
        self._failed: set[str] = set()
        self._turns = Turns(*_AT_ONCE, most=sys.maxsize)

    def has_kept(self, job: StoredStatus, *, is_final: bool, pods: Iterable[Object] = ()) -> bool:
        """Return whether the logs of a job have been kept, or need not be yet; otherwise start to keep them.

        When the logs of an ended job have been kept, `look_at` is called. The first failed container of a job also
        starts to keep its logs, and the result is then True at once.

        Args:
            job: The job.
            is_final: Whether the job has ended, or is about to be stopped.
            pods: The pods of the job.
        """
        release = job.release
        if not is_final:
            self._done.discard(release)
            if release not in self._failed and any(run.has_failed for pod in pods for run in instances(pod)):
                self._failed.add(release)
                self._begin(job)
            return True
        if release in self._done:
            return True
        self._begin(job, is_final=True)
        return False

    def forget(self, release: str) -> None:
        """Forget the state of a job whose end is stored."""
        self._done.discard(release)
        self._failed.discard(release)

    def _begin(self, job: StoredStatus, *, is_final: bool = False) -> None:
        key = f"{job.release}{'!' if is_final else ''}"
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.create_task(self._keep(job, is_final=is_final))
            task.add_done_callback(lambda _task: self._tasks.pop(key, None))

    async def close(self) -> None:
        """Cancel reading: the logs of a job whose end is not stored are read again after the next start."""
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, job: StoredStatus, *, is_final: bool) -> None:
        release, owner = job.release, Owner(job.project, "")
        try:
            await self._turns.begin(owner)
            try:
                async with asyncio.timeout(_SECONDS):
                    await self._read(job)
            finally:
                self._turns.end(owner)
        except TimeoutError:
            self._log(f"{release}: its logs could not be read in {_SECONDS:g} s")
        except Exception as error:  # noqa: BLE001 - the job ends nevertheless
            self._log(f"{release}: its logs cannot be kept: {type(error).__name__}: {error}")
        finally:
            if is_final:
                self._done.add(release)
                self._look_at(release)

    async def _read(self, job: StoredStatus) -> None:
        release = job.release
        pods = await pods_of(self._cluster, job.namespace, release, self._server)
        if self._record is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CURVES_SECONDS):
                    await self._record(job, pods)
        earlier = {
            (entry.pod, entry.container, entry.instance): entry.size
            for entry in await asyncio.to_thread(self._kept.of_job, release)
        }
        runs = sorted((run for pod in pods for run in instances(pod)), key=lambda run: (not run.has_failed, run.pod))
        for run in runs:
            key = (run.pod, run.container, "previous" if run.is_previous else "current")
            others = {other: size for other, size in earlier.items() if other != key}
            names = {pod for pod, _, _ in others}
            room = min(MOST_BYTES, MOST_BYTES_OF_A_JOB - sum(others.values()))
            if room <= 0 or (run.pod not in names and len(names) >= MOST_PODS):
                continue
            try:
                async with asyncio.timeout(_LOG_SECONDS):
                    text = await self._end_of_log(run, job.namespace, room)
            except (ClusterError, TimeoutError) as error:
                reason = str(error) or f"it could not be read in {_LOG_SECONDS:g} s"
                self._log(f"{release}: the log of {run.pod}, {run.container} cannot be kept: {reason}")
                continue
            kept = StoredLog(
                release=release,
                pod=run.pod,
                container=run.container,
                instance=key[2],
                place=run.place,
                size=len(text),
                content=zlib.compress(text, 6),
                time=now(),
            )
            await asyncio.to_thread(self._kept.keep, kept)
            earlier[key] = len(text)

    async def _end_of_log(self, run: Instance, namespace: str, room: int) -> bytes:
        lines: deque[bytes] = deque()
        size = 0
        options = LogOptions(run.container, _LINES, is_previous=run.is_previous, has_times=True)
        async for line in self._cluster.log(run.pod, namespace, options):
            lines.append(line.encode(errors="replace")[-room:])
            size += len(lines[-1])
            while size > room:
                size -= len(lines.popleft())
        return b"".join(lines)


def kept_lines(content: bytes, *, tail: int | None, since: datetime | None, has_times: bool = False) -> list[str]:
    """Return the lines of a kept log.

    Args:
        content: The compressed log.
        tail: The number of lines from the end; None for all.
        since: The earliest time; a line without a time has the time of the line before.
        has_times: Whether lines are returned with their times.
    """
    decompressor = zlib.decompressobj()
    text = decompressor.decompress(content, MOST_BYTES + 1).decode(errors="replace") if content else ""
    lines: list[str] = []
    is_late = since is None
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        match = _TIME.match(line)
        time = _moment(match[1] + match[2]) if match else None
        if time and since is not None:
            is_late = time >= since.replace(microsecond=0)
        if is_late:
            lines.append(line[match.end() :] if match and not has_times else line)
    return lines if tail is None else lines[max(len(lines) - tail, 0) :]


def _moment(text: str) -> datetime | None:
    """Return a time; None for another text: the beginning of a kept log may be cut within a program's line."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


async def as_stream(lines: Iterable[str]) -> AsyncIterator[str]:
    """Yield lines as an asynchronous iterator, as the log of a cluster is."""
    for line in lines:
        yield line
