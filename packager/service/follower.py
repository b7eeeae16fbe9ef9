"""The control loop: applies what was asked for, follows it in the cluster, and stores what becomes of it.

There is one watch for each kind of object in a namespace, not one for each job. The cluster is the truth about what
runs, the database about what was asked for: after a restart, what is missing is applied, and the rest is followed.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, MlpackError
from packager.cluster.diagnosis import diagnose
from packager.cluster.past import Memory
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import created, labels, name, owners, uid
from packager.kubernetes.pods import state
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Phase
from packager.service import records
from packager.service.kube import ExpiredError, RefusedError
from packager.service.policy import JOB, SERVER, WORKLOADS
from packager.service.store.store import FINAL, as_json, now
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packager.kubernetes.objects import Object
    from packager.kubernetes.verdict import Verdict
    from packager.service.kube import Cluster
    from packager.service.sealing import Sealer
    from packager.service.store.store import Row, Store

WATCHED = (*(kind for _, kind in WORKLOADS), "Event")
"""The kinds of objects that are watched."""

_LABELLED = frozenset(WATCHED) - {"Event"}
_LONGEST_EVENTS = 5_000

TICK = 10.0
"""Seconds between two looks at jobs that nothing was heard of: some findings come with time."""

_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between two attempts to watch."""

_ABSENT = 60.0
"""Seconds between two attempts to watch a kind that the cluster does not serve."""


class Follower:
    """Looks after the jobs of one server, in one namespace."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it connects
        self,
        cluster: Cluster,
        store: Store,
        sealer: Sealer,
        server: str,
        namespace: str,
        log: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._sealer = sealer
        self._server = server
        self._namespace = namespace
        self._log = log
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in WATCHED}
        self._listed: set[str] = set()
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()
        self._memories: dict[str, Memory] = {}
        self._missing: dict[str, int] = {}
        self._pulse = asyncio.Event()
        self.generation = 0
        self.on_change: list[Callable[[], None]] = []

    async def run(self) -> None:
        """Look after the jobs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in WATCHED:
                tasks.create_task(self._watch(kind))
            tasks.create_task(self._tick())
            tasks.create_task(self._work())

    def look_at(self, release: str) -> None:
        """Look at a job soon."""
        self._dirty.add(release)
        self._wake.set()

    async def _tick(self) -> None:
        while True:
            for row in await asyncio.to_thread(self._store.unfinished):
                self._dirty.add(row["release"])
            self._wake.set()
            await asyncio.sleep(TICK)

    async def _watch(self, kind: str) -> None:
        selector = {SERVER: self._server} if kind in _LABELLED else None
        attempt = 0
        while True:
            try:
                items, version = await self._cluster.list(kind, self._namespace, selector)
                self._replace(kind, items)
                attempt = 0
                while True:  # a watch ends after some minutes, and goes on where it was
                    async for word, item in self._cluster.watch(kind, self._namespace, version, selector):
                        version = item["metadata"]["resourceVersion"]
                        self._change(kind, word, item)
            except ExpiredError:
                continue
            except RefusedError as error:
                if error.code == 404:
                    self._replace(kind, [])  # no operator for this kind
                    await asyncio.sleep(_ABSENT)
                    continue
                self._log(f"{kind} cannot be watched: {error}")
                await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            except ClusterError as error:
                self._log(f"{kind} cannot be watched: {error}")
                await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1

    def _replace(self, kind: str, items: Iterable[Object]) -> None:
        before = self._objects[kind]
        self._objects[kind] = {uid(item): _typed(item, kind) for item in items}
        self._listed.add(kind)
        for item in (*before.values(), *self._objects[kind].values()):
            self._note(kind, item)

    def _change(self, kind: str, word: str, item: Object) -> None:
        if word == "DELETED":
            self._objects[kind].pop(uid(item), None)
        else:
            self._objects[kind][uid(item)] = _typed(item, kind)
            if kind == "Event" and len(self._objects[kind]) > _LONGEST_EVENTS:
                del self._objects[kind][next(iter(self._objects[kind]))]
        self._note(kind, item)

    def created(self, release: str) -> None:
        """Look at a job soon, and tell those who wait that it has an event."""
        self.look_at(release)
        self._tell()

    def _note(self, kind: str, item: Object) -> None:
        if kind == "Event":
            about = mapping(item.get("involvedObject")).get("uid")
            item = next((known[about] for known in self._objects.values() if about in known), item)
        if release := labels(item).get(JOB):
            self.look_at(release)

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            releases, self._dirty = sorted(self._dirty), set()
            for release in releases:
                try:
                    await self._look(release)
                except MlpackError as error:
                    self._log(f"{release}: {error}")
                except Exception as error:  # noqa: BLE001 - one job must not keep the others from being looked at
                    self._log(f"{release}: {type(error).__name__}: {error}")
            await asyncio.sleep(0.05)  # what happens at once is looked at once

    async def _look(self, release: str) -> None:
        row = await asyncio.to_thread(self._store.job, release)
        if row is None or row["namespace"] != self._namespace:
            return
        if row["goal"] != "run":
            await self._stop(row)
        elif row["status"] in FINAL:
            self._memories.pop(release, None)
        elif not row["applied"]:
            await self._apply(row)
        elif row["kind"] in self._listed:
            await self._judge(row)

    async def _apply(self, row: Row) -> None:
        """Apply the objects of a job; what has been applied before an earlier end of the server stays as it is."""
        items = await asyncio.to_thread(records.objects, row, self._sealer)
        try:
            for item in items:
                applied = await self._cluster.apply(item, self._namespace)
        except RefusedError as error:
            if error.code >= 500 or error.code in (409, 429):
                raise
            await self._end(row, "failed", "ClusterRefused", str(error))
            return
        owner = {
            "apiVersion": applied["apiVersion"],
            "kind": applied["kind"],
            "name": name(applied),
            "uid": uid(applied),
        }
        for item in items[:-1]:
            if item["kind"] != "PersistentVolumeClaim":
                owned = {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}}
                await self._cluster.apply(owned, self._namespace)
        await asyncio.to_thread(self._store.mark_applied, row["release"])
        self.look_at(row["release"])

    async def _stop(self, row: Row) -> None:
        """Delete the objects of a job that was cancelled or deleted; a claim only when that was asked for."""
        goal, release = row["goal"], row["release"]
        for item in reversed(json.loads(row["manifests"])):
            if item["kind"] != "PersistentVolumeClaim" or goal == "delete-storage":
                await self._cluster.delete(item["kind"], name(item), self._namespace)
        if row["status"] not in FINAL:
            reason = "Cancelled" if goal == "cancel" else "Deleted"
            await self._end(row, "deleted", reason, "the job was cancelled" if goal == "cancel" else "was deleted")
        if goal == "cancel":
            await asyncio.to_thread(self._store.settle, release)
        else:
            await asyncio.to_thread(self._store.remove_job, release)
        self._tell()

    async def _judge(self, row: Row) -> None:
        """Store what the cluster says about a job that was applied."""
        release = row["release"]
        kind = kinds()[row["kind"]]
        workload = next((item for item in self._objects[row["kind"]].values() if name(item) == release_of(row)), None)
        if workload is None:
            await self._judge_missing(row)
            return
        self._missing.pop(release, None)
        snapshot = self._snapshot(workload, row["kind"])
        memory = self._memories.setdefault(release, Memory(kind))
        past = memory.add(snapshot, asyncio.get_running_loop().time())
        verdict = diagnose(kind, snapshot, past)
        fields = _fields(row, verdict, snapshot)
        if await asyncio.to_thread(self._store.change_job, release, fields):
            self._tell()

    async def _judge_missing(self, row: Row) -> None:
        """A workload that is in neither the cache nor, twice, the cluster was deleted by another client."""
        release = row["release"]
        if await self._cluster.get(row["kind"], release_of(row), self._namespace) is not None:
            self._missing.pop(release, None)
            return
        self._missing[release] = self._missing.get(release, 0) + 1
        if self._missing[release] > 1:
            await self._end(row, "deleted", "DeletedInCluster", f"the {row['kind']} was deleted in the cluster")
        else:
            asyncio.get_running_loop().call_later(1.0, self.look_at, release)

    def _snapshot(self, workload: Object, kind: str) -> Snapshot:
        age = max(0.0, (datetime.now(UTC) - created(workload)).total_seconds())
        if kind == "Pod":
            return Snapshot(workload, pods=(workload,), events=self._events(), age=age)
        children = tuple(
            item
            for _, other in WORKLOADS
            for item in self._objects[other].values()
            if other not in (kind, "Pod") and uid(workload) in owners(item)
        )
        known = {uid(workload), *map(uid, children)}
        pods = tuple(pod for pod in self._objects["Pod"].values() if owners(pod) & known)
        return Snapshot(workload, children, pods, self._events(), age)

    def _events(self) -> tuple[Object, ...]:
        return tuple(self._objects["Event"].values())

    async def _end(self, row: Row, status: str, reason: str, message: str) -> None:
        fields = {"status": status, "reason": reason, "message": message, "hint": None, "ended": now()}
        await asyncio.to_thread(self._store.change_job, row["release"], fields)
        self._memories.pop(row["release"], None)
        self._tell()

    def _tell(self) -> None:
        self.generation += 1
        pulse, self._pulse = self._pulse, asyncio.Event()
        pulse.set()
        for call in self.on_change:
            call()

    async def wait_for_change(self, generation: int, seconds: float) -> bool:
        """Return True when the generation is another one, or False after some seconds."""
        if self.generation == generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._pulse.wait()
        return self.generation != generation


def release_of(row: Row) -> str:
    """Return the name of a job's workload."""
    return name(json.loads(row["manifests"])[-1])


def _typed(item: Object, kind: str) -> Object:
    """Return an object of a list, which names no kind, as one by itself."""
    return item if item.get("kind") else {**item, "kind": kind}


_STATUSES = {
    Phase.SUCCEEDED: "succeeded",
    Phase.FAILED: "failed",
    Phase.RUNNING: "running",
    Phase.SERVING: "running",
}


def _fields(row: Row, verdict: Verdict, snapshot: Snapshot) -> Row:
    """Return what is stored of a verdict."""
    status = _STATUSES.get(verdict.phase, "pending")
    if status == "pending" and row["started"]:
        status = "running"  # what has begun and is stuck has not gone back to the queue
    first = verdict.findings[0] if verdict.findings else None
    fields: dict[str, Any] = {
        "status": status,
        "reason": first.reason if first else None,
        "message": first.message if first else verdict.summary,
        "hint": first.hint if first else None,
        "pods": as_json([_pod(pod) for pod in snapshot.pods]),
        "findings": as_json([finding.as_json() for finding in verdict.findings]),
    }
    if status != "pending" and not row["started"]:
        fields["started"] = now()
    if status in FINAL:
        fields["ended"] = now()
    return fields


def _pod(pod: Object) -> dict[str, Any]:
    statuses = mapping(pod.get("status")).get("containerStatuses") or ()
    return {
        "name": name(pod),
        "state": state(pod),
        "restarts": sum(int(entry.get("restartCount", 0)) for entry in statuses),
        "node": pod["spec"].get("nodeName"),
    }
