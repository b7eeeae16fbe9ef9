"""Records curves: reads new lines in the logs of jobs, and stores the curves in these lines.

The logs of all running jobs are read every 30 s, and those of one job when a caller requests its curves. The logs of an
ended job are read once more, before its pods are deleted.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.errors import ClusterError
from packager.base.values import Fields, FieldsError, Value, as_plain, convert, from_json
from packager.diagnosis.curves.points import STEP, Curve, Point, added
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import name
from packager.service.jobs.kube import LogOptions, pods_of
from packager.service.store.databases import AwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.jobs.kube import Cluster
    from packager.service.store.rows import StoredStatus
    from packager.service.store.store import Store

MOST_PODS = 8
"""The maximum number of pods of a job whose logs are read."""

ROUND = 30.0
"""The seconds between two rounds over all running jobs."""

_FRESH = 2.0
"""The seconds for which the curves of a running job are fresh."""

_SECONDS = 5.0
"""The time limit for reading the log of a pod, in seconds."""

_WAIT_SECONDS = 3.0
"""The longest time for which a caller waits for the latest lines, in seconds: the rounds read them, too."""

_MOST_BYTES = 16 << 20
"""The maximum size that is read of a log in one round; the rest is read in the next one."""

_BATCH = 2_000
_AT_ONCE = 4
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2}) ")

Place = tuple[str, int]
"""The position in a log: the time of the last line that was read, and the number of lines with this time."""


class Measurements(Fields, frozen=True, kw_only=True):
    """The stored curves of a job.

    Attributes:
        places: The position in the log of each pod.
        curves: The curves.
    """

    places: dict[str, Place] = {}
    curves: list[Curve] = []


class _LastValue(Value, frozen=True):
    name: str
    last: Point | None = None


class _LastValues(Value, frozen=True):
    """The part of `Measurements` that a list of jobs shows."""

    curves: list[_LastValue] = []


class Recorder:
    """Records the curves of the jobs of one server.

    Args:
        cluster: The cluster in which the jobs run.
        store: The database of curves.
        server: The name of the server in the labels of its objects.
        log: Writes a line to the log of the server.
        pods: Returns the pods of a job from the control loop; none in replicas without a control loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        server: str,
        log: Callable[[str], None],
        pods: Callable[[StoredStatus], Sequence[Object]] = lambda _job: (),
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._server = server
        self._log = log
        self._pods = pods
        self._times: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

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
                await self._record(job, self._pods(job))
            except AwayError:
                raise
            except Exception as error:  # noqa: BLE001 - an error of one job must not stop the curves of others
                self._log(f"{job.release}: its metrics cannot be recorded: {type(error).__name__}: {error}")

    async def curves(self, job: StoredStatus) -> list[Curve]:
        """Return the curves of a job; if it runs and the cluster answers soon, with points from the latest lines."""
        time = asyncio.get_running_loop().time()
        if job.status == "running" and time - self._times.get(job.release, 0.0) > _FRESH:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self.record(job, self._pods(job) or await self._listed(job))
        return (await self._stored(job.release)).curves

    async def last_values(self, releases: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """Return the last stored value of each curve of some jobs, by release and name; of several pods, the first."""

        def read() -> dict[str, dict[str, float | None]]:
            curves = {
                release: from_json(body, _LastValues).curves
                for release, body in self._store.measured.of_jobs(releases).items()
            }
            return {
                release: {curve.name: curve.last[1] for curve in reversed(items) if curve.last}
                for release, items in curves.items()
            }

        return await asyncio.to_thread(read)

    async def _listed(self, job: StoredStatus) -> Sequence[Object]:
        """Return the pods of a job from the cluster, for replicas without watches: only the leader has watches."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await pods_of(self._cluster, job.namespace, job.release, self._server)
        except (ClusterError, TimeoutError):
            return ()

    async def record(self, job: StoredStatus, pods: Sequence[Object]) -> None:
        """Read new lines in the logs of a job's pods, and store the curves; logs that cannot be read are left out.

        The rounds have places of their own, as they may read slow logs of many jobs.
        """
        async with self._limit:
            await self._record(job, pods)

    async def _record(self, job: StoredStatus, pods: Sequence[Object]) -> None:
        release = job.release
        lock = self._locks.setdefault(release, asyncio.Lock())
        try:
            async with lock:
                before = await self._stored(release)
                curves = {(curve.pod, curve.name): curve for curve in before.curves}
                places = dict(before.places)
                for pod in sorted(pods, key=name)[:MOST_PODS]:
                    place = places.get(name(pod), ("", 0))
                    curves, places[name(pod)] = await self._read(pod, job.namespace, place, curves)
                after = Measurements(places=places, curves=list(curves.values()))
                if after != before:
                    await asyncio.to_thread(self._store.measured.keep, release, jsonio.compact(as_plain(after)))
        finally:
            self._times[release] = asyncio.get_running_loop().time()
            if not lock.locked():
                self._locks.pop(release, None)

    async def _stored(self, release: str) -> Measurements:
        body = await asyncio.to_thread(self._store.measured.of_job, release)
        try:
            return convert(json.loads(body), Measurements) if body else Measurements()
        except FieldsError as error:
            self._log(f"{release}: its metrics cannot be read: {error}")
            return Measurements()

    async def _read(
        self, pod: Object, namespace: str, place: Place, curves: dict[tuple[str, str], Curve]
    ) -> tuple[dict[tuple[str, str], Curve], Place]:
        """Return curves with the points from new lines in the log of a pod, and the new position in the log."""
        containers = listing(mapping(pod.get("spec")).get("containers"))
        last, seen = place
        skipped, size, is_begin = 0, 0, True
        lines: list[str] = []
        since = datetime.fromisoformat(f"{last.partition('.')[0]}+00:00") if last else None
        container = mapping(containers[0]).get("name") if containers else None
        try:
            async with asyncio.timeout(_SECONDS):
                options = LogOptions(container, since=since, has_times=True)
                stream = self._cluster.log(name(pod), namespace, options)
                async for line in stream:
                    size += len(line)
                    if size > _MOST_BYTES:
                        break
                    match = _TIME.match(line) if is_begin else None  # a program writes the rest of a long line
                    is_begin = line.endswith("\n")
                    time = _time_of(match) if match else ""
                    if not match or not time or time < last:
                        continue
                    if time == place[0] and skipped < place[1]:
                        skipped += 1
                        continue
                    last, seen = time, seen + 1 if time == last else 1
                    if STEP in line:
                        lines.append(line[match.end() :])
                    if len(lines) >= _BATCH:
                        curves = await asyncio.to_thread(added, curves, name(pod), lines)
                        lines = []
        except (ClusterError, TimeoutError):
            pass  # the lines until then are used; the rest is read in the next round
        return await asyncio.to_thread(added, curves, name(pod), lines), (last, seen)


def _time_of(match: re.Match[str]) -> str:
    """Return the time of a line in UTC, with nine digits after the second; empty if there is no such time.

    A kubelet writes the times in the zone of its node.
    """
    try:
        moment = datetime.fromisoformat(f"{match[1]}{match[3]}").astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"{moment.replace(tzinfo=None).isoformat()}.{(match[2] or '').ljust(9, '0')}"
