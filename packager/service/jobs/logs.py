"""Reads the logs of jobs: for the curves of running jobs, and at their end, once, also to keep the ends of the logs.

Chunks of whole lines come from the cluster, and are cut into lines in the threads of `Work`.

The logs of all running jobs are read every 30 s, and those of one job when a caller requests its curves.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.errors import ClusterError
from packager.base.values import Fields, FieldsError, Value, as_plain, convert, from_json
from packager.diagnosis.curves.points import STEP, Curve, added
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import name
from packager.service.jobs.kube import LogOptions, pods_of
from packager.service.store.databases import AwayError
from packager.service.store.models import StoredLog, now
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.jobs.kube import Cluster
    from packager.service.store.models import StoredStatus
    from packager.service.store.store import Store
    from packager.service.work import Work

MOST_BYTES = 256 << 10
"""The maximum size of a container's kept log."""

MOST_PODS = 20
MOST_BYTES_OF_A_JOB = 5 << 20
MOST_PODS_WITH_CURVES = 8

ROUND = 30.0
"""The seconds between two rounds over all running jobs."""

_FRESH = 2.0
"""The seconds for which the curves of a running job are fresh."""

_WAIT_SECONDS = 3.0
"""The longest time for which a caller waits for the latest lines: the rounds read them, too."""

_SECONDS = 20.0
_LOG_SECONDS = 5.0
"""The time limits for reading all logs of a job, and one log. If a node does not answer, the logs of the pods on other
nodes are read."""

_MOST_READ = 16 << 20
"""The maximum size that is read of a log in one round; the rest is read in the next one."""

_PARSED_BYTES = 256 << 10
_AT_ONCE = 4
_LINES = 10_000  # with their times, so many lines are larger than MOST_BYTES
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2}) ")

Place = tuple[str, int]
"""The position in a log: the time of the last line that was read, and the number of lines with a step at this time."""


class Measurements(Fields, frozen=True, kw_only=True):
    """The stored curves of a job, and the position in the log of each pod."""

    places: dict[str, Place] = {}
    curves: list[Curve] = []


class Instance(Value, frozen=True):
    """One run of a container."""

    pod: str
    container: str
    place: int  # the index of the container in its pod; negative for init containers
    is_previous: bool  # whether this is the run before the last restart
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


class CurveReader:
    """Adds the lines of one pod's log to curves, from a position on."""

    def __init__(self, curves: dict[tuple[str, str], Curve], pod: str, place: Place) -> None:
        self.curves = curves
        self.place = place
        self._pod = pod
        self._from, self._known = place
        self._is_begin = True

    def add(self, chunk: bytes) -> None:
        """Add a chunk of lines with their times. A thread calls it, as it cuts the lines."""
        text = chunk.decode(errors="replace")
        lines = text.removesuffix("\n").split("\n")
        steps: list[str] = []
        last, seen = self.place
        for index, line in enumerate(lines):
            is_step = STEP in line
            if (is_step or index == len(lines) - 1) and (self._is_begin or index):  # else the rest of a long line
                match = _TIME.match(line)
                time = _time_of(match) if match else ""
                if match and time and time >= self._from:
                    if is_step and time == self._from and self._known > 0:
                        self._known -= 1
                    elif is_step:
                        steps.append(line[match.end() :])
                    last, seen = time, is_step + (seen if time == last else 0)
        self._is_begin = text.endswith("\n")
        self.place = (last, seen)
        self.curves = added(self.curves, self._pod, steps)


def _time_of(match: re.Match[str]) -> str:
    """Return the time of a line in UTC, with nine digits after the second; empty if there is no such time.

    A kubelet writes the times in the zone of its node.
    """
    try:
        moment = datetime.fromisoformat(f"{match[1]}{match[3]}").astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment.replace(tzinfo=None).isoformat()}.{(match[2] or '').ljust(9, '0')}"


class LogReader:
    """Reads the logs of the jobs of one server."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        cluster: Cluster,
        store: Store,
        server: str,
        work: Work,
        log: Callable[[str], None],
        pods: Callable[[StoredStatus], Sequence[Object]] = lambda _job: (),
        look_at: Callable[[str, str], None] = lambda _release, _namespace: None,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._server = server
        self._work = work
        self._log = log
        self._pods = pods
        self._look_at = look_at
        self._times: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._ending = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: set[str] = set()
        self._failed: set[str] = set()

    # curves

    async def run(self) -> None:
        """Read the logs of all running jobs every 30 s, until cancelled."""
        while True:
            await asyncio.sleep(ROUND)
            jobs = [job for job in await asyncio.to_thread(self._store.unfinished) if job.status == "running"]
            self._times = {job.release: self._times.get(job.release, 0.0) for job in jobs}
            waiting = iter(jobs)
            await asyncio.gather(*(self._record_each(waiting) for _ in range(_AT_ONCE)))

    async def _record_each(self, jobs: Iterator[StoredStatus]) -> None:
        for job in jobs:
            try:
                await self.record(job, self._pods(job))
            except AwayError:
                raise
            except Exception as error:  # noqa: BLE001 - an error of one job must not stop the curves of others
                self._log(f"{job.release}: its metrics cannot be recorded: {type(error).__name__}: {error}")

    async def curves(self, job: StoredStatus) -> list[Curve]:
        """Return the curves of a job; if it runs and the cluster answers soon, with points from the latest lines."""
        time = asyncio.get_running_loop().time()
        if job.status == "running" and time - self._times.get(job.release, 0.0) > _FRESH:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS), self._limit:  # the rounds have places of their own
                    await self.record(job, self._pods(job))
        return (await self._stored(job.release)).curves

    async def last_values(self, releases: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """Return the last stored value of each curve of some jobs, by release and name; of several pods, the first."""

        def read() -> dict[str, dict[str, float | None]]:
            curves = {
                release: from_json(body, Measurements).curves
                for release, body in self._store.measured.of_jobs(releases).items()
            }
            return {
                release: {curve.name: curve.last[1] for curve in reversed(items) if curve.last}
                for release, items in curves.items()
            }

        return await asyncio.to_thread(read)

    async def record(self, job: StoredStatus, pods: Sequence[Object]) -> None:
        """Read new lines in the logs of a job's pods, and store the curves; logs that cannot be read are left out."""
        release = job.release
        lock = self._locks.setdefault(release, asyncio.Lock())
        try:
            async with lock:
                before = await self._stored(release)
                places, curves = dict(before.places), {(curve.pod, curve.name): curve for curve in before.curves}
                for pod in sorted(pods, key=name)[:MOST_PODS_WITH_CURVES]:
                    reader = CurveReader(curves, name(pod), places.get(name(pod), ("", 0)))
                    with suppress(ClusterError, TimeoutError):  # the rest is read in the next round
                        await self._measure(job, pod, reader)
                    curves, places[name(pod)] = reader.curves, reader.place
                after = Measurements(places=places, curves=list(curves.values()))
                if after != before:
                    await asyncio.to_thread(self._store.measured.keep, release, jsonio.compact(as_plain(after)))
        finally:
            self._times[release] = asyncio.get_running_loop().time()
            if not lock.locked():
                self._locks.pop(release, None)

    async def _measure(self, job: StoredStatus, pod: Object, reader: CurveReader) -> None:
        """Add the new lines of a pod's log to its curves. Raises ClusterError or TimeoutError."""
        last = reader.place[0]
        since = datetime.fromisoformat(f"{last.partition('.')[0]}+00:00") if last else None
        containers = listing(mapping(pod.get("spec")).get("containers"))
        first = next((mapping(container).get("name") for container in containers), None)
        options = LogOptions(first, since=since, has_times=True)
        owner, lines, total = Owner(job.project), bytearray(), 0
        try:
            async with asyncio.timeout(_LOG_SECONDS):
                async for chunk in self._cluster.log(name(pod), job.namespace, options):
                    lines += chunk
                    total += len(chunk)
                    if len(lines) >= _PARSED_BYTES:
                        await self._work.run(owner, partial(reader.add, bytes(lines)))
                        lines.clear()
                    if total > _MOST_READ:
                        break
        finally:
            if lines:
                await self._work.run(owner, partial(reader.add, bytes(lines)))

    async def _stored(self, release: str) -> Measurements:
        body = await asyncio.to_thread(self._store.measured.of_job, release)
        try:
            return convert(json.loads(body), Measurements) if body else Measurements()
        except FieldsError as error:
            self._log(f"{release}: its metrics cannot be read: {error}")
            return Measurements()

    # the ends of logs

    def has_kept(self, job: StoredStatus, *, is_final: bool, pods: Iterable[Object] = ()) -> bool:
        """Return whether the logs of a job have been kept, or need not be yet; otherwise start to keep them.

        When the logs of an ended job have been kept, `look_at` is called. The first failed container of a job also
        starts to keep its logs, and the result is then True at once.
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
        release = job.release
        try:
            async with self._ending, asyncio.timeout(_SECONDS):
                await self._keep_each(job)
        except TimeoutError:
            self._log(f"{release}: its logs could not be read in {_SECONDS:g} s")
        except Exception as error:  # noqa: BLE001 - the job ends nevertheless
            self._log(f"{release}: its logs cannot be kept: {type(error).__name__}: {error}")
        finally:
            if is_final:
                self._done.add(release)
                self._look_at(release, job.namespace)

    async def _keep_each(self, job: StoredStatus) -> None:
        pods = await pods_of(self._cluster, job.namespace, job.release, self._server)
        await self.record(job, pods)
        earlier = {
            (entry.pod, entry.container, entry.instance): entry.size
            for entry in await asyncio.to_thread(self._store.logs.of_job, job.release)
        }
        for run in sorted(
            (run for pod in pods for run in instances(pod)), key=lambda run: (not run.has_failed, run.pod)
        ):
            await self._keep_one(job, run, earlier)

    async def _keep_one(self, job: StoredStatus, run: Instance, earlier: dict[tuple[str, str, str], int]) -> None:
        """Keep the end of the log of one run of a container, if there is room."""
        key = (run.pod, run.container, "previous" if run.is_previous else "current")
        others = {other: size for other, size in earlier.items() if other != key}
        names = {pod for pod, _, _ in others}
        room = min(MOST_BYTES, MOST_BYTES_OF_A_JOB - sum(others.values()))
        if room <= 0 or (run.pod not in names and len(names) >= MOST_PODS):
            return
        options = LogOptions(run.container, _LINES, is_previous=run.is_previous, has_times=True)
        end = b""
        try:
            async with asyncio.timeout(_LOG_SECONDS):
                async for chunk in self._cluster.log(run.pod, job.namespace, options):
                    end = (end + chunk)[-room - 1 :]
        except (ClusterError, TimeoutError) as error:
            reason = str(error) or f"it could not be read in {_LOG_SECONDS:g} s"
            self._log(f"{job.release}: the log of {run.pod}, {run.container} cannot be kept: {reason}")
            return
        size, content = await self._work.run(Owner(job.project), partial(_packed, end, room))
        await asyncio.to_thread(
            self._store.logs.keep,
            StoredLog(
                release=job.release,
                pod=run.pod,
                container=run.container,
                instance=key[2],
                place=run.place,
                size=size,
                content=content,
                time=now(),
            ),
        )
        earlier[key] = size


def _packed(text: bytes, room: int) -> tuple[int, bytes]:
    """Return the size of the last `room` bytes of a text, from the beginning of a line on, and them compressed."""
    text = text.decode(errors="replace").encode()
    if len(text) > room:
        cut = text[-room:]
        newline = cut.find(b"\n", 0, -1)
        text = cut[newline + 1 :] if newline >= 0 and text[-room - 1 : -room] != b"\n" else cut
    return len(text), zlib.compress(text, 6)


def kept_lines(content: bytes, *, tail: int | None, since: datetime | None, has_times: bool = False) -> list[str]:
    """Return the lines of a kept log."""
    decompressor = zlib.decompressobj()
    text = decompressor.decompress(content, MOST_BYTES + 1).decode(errors="replace") if content else ""
    lines: list[str] = []
    is_late = since is None
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        match = _TIME.match(line)
        if match and since is not None and (time := _time_of(match)):
            is_late = time >= since.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()
        if is_late:
            lines.append(line[match.end() :] if match and not has_times else line)
    return lines if tail is None else lines[max(len(lines) - tail, 0) :]
