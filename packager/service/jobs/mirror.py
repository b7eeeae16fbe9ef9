"""Mirror: a copy of the objects of one server in one namespace, which one watch per kind keeps up to date."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.errors import ClusterError
from packager.base.values import Value
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import created, labels, name, owners, uid
from packager.kubernetes.snapshot import Queueing, Snapshot
from packager.service.jobs.kube import ExpiredError, RefusedError, pods_of, without_managed_fields
from packager.service.registry.policy import JOB, SERVER, WORKLOADS
from packager.workloads import kueue
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.jobs.kube import Cluster

WATCHED = (*(kind for _, kind in WORKLOADS), "Event")
"""The kinds of objects that are watched."""

_KINDS = {kind.resource: kind.name for kind in kinds().values()}
"""The kinds of objects, by their resource names in kubectl."""

_MOST_EVENTS = 20_000
"""The maximum number of kept events; a cluster deletes events after an hour."""

_RELEASE = re.compile(r"-[0-9a-f]{6}(?=-|$)")
"""The end of a release in the names of its objects, which begin with the release."""

_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""The seconds before each further attempt to watch."""

_STEADY = 30.0
"""The seconds of a watch after which the next pause is the first one again."""

_ABSENT = 60.0
"""The seconds between two attempts to watch a kind that the cluster does not serve."""


_FRESH = 5.0
"""The seconds for which the Workloads of a namespace are read once, for all of its jobs."""

_REFUSED = 60.0
"""The seconds between two attempts where the server may not read them, or the cluster does not have them."""


class Queues:
    """Kueue's objects in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._workloads: tuple[Object, ...] | None = None
        self._local_queues: dict[str, Object | None] = {}
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def of(self, workload: Object, pods: Sequence[Object] = ()) -> Queueing | None:
        """Return the answers of Kueue about a workload that it holds; None if it does not, or they cannot be read."""
        queue = kueue.of(workload)
        if queue is None or not kueue.is_held(workload, pods):
            return None
        async with self._lock:
            if asyncio.get_running_loop().time() >= self._until:
                await self._read()
            if self._workloads is None:
                return None
            if queue not in self._local_queues:
                self._local_queues[queue] = None
                with contextlib.suppress(ClusterError):
                    self._local_queues[queue] = await self._cluster.get("LocalQueue", queue, self._namespace)
            return Queueing(queue, self._workloads, self._local_queues[queue])

    async def _read(self) -> None:
        self._local_queues = {}
        try:
            items, _ = await self._cluster.list("Workload", self._namespace, None)
            self._workloads = tuple({**without_managed_fields(item), "kind": "Workload"} for item in items)
        except ClusterError:
            self._workloads = None
        self._until = asyncio.get_running_loop().time() + (_REFUSED if self._workloads is None else _FRESH)


class _Kept(Value, frozen=True):
    """An object as JSON text, which takes a tenth of the memory of dicts and lists."""

    kind: str  # the kind of the object
    name: str  # the name of the object
    uid: str  # the uid of the object
    releases: tuple[str, ...]  # the release of the object; for an event, all releases that it may concern
    content: bytes  # the object, as JSON

    def read(self) -> Object:
        """Return the object."""
        item: Object = json.loads(self.content)
        return item


class Mirror:
    """The objects of one server in one namespace."""

    def __init__(
        self,
        cluster: Cluster,
        server: str,
        namespace: str,
        look_at: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._server = server
        self._namespace = namespace
        self._look_at = look_at
        self._log = log
        self._queues = Queues(cluster, namespace)
        self._objects: dict[str, dict[str, _Kept]] = {kind: {} for kind in WATCHED}
        self._of_job: defaultdict[str, dict[str, _Kept]] = defaultdict(dict)
        self._events_of: defaultdict[str, dict[str, _Kept]] = defaultdict(dict)
        self._listed: set[str] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in WATCHED:
                tasks.create_task(self._watch(kind))

    def knows(self, kind: str) -> bool:
        """Whether the workloads of a kind and the pods have been listed."""
        return {kind, "Pod"} <= self._listed

    def workload(self, release: str, kind: str, workload: str) -> Object | None:
        """Return the workload of a job, by its kind and name; None if the mirror does not have it."""
        return next((kept.read() for kept in self._of(release) if (kept.kind, kept.name) == (kind, workload)), None)

    def pods(self, release: str) -> tuple[Object, ...]:
        """Return the pods of a job."""
        return tuple(kept.read() for kept in self._of(release) if kept.kind == "Pod")

    async def snapshot(self, release: str, workload: Object) -> Snapshot:
        """Return the workload of a job with its children, pods and events, and with what Kueue says while it holds it.

        Raises ClusterError.
        """
        age = max(0.0, (datetime.now(UTC) - created(workload)).total_seconds())
        about = self._events_of[release].values() if release in self._events_of else ()
        events = tuple(kept.read() for kept in about)
        if workload["kind"] == "Pod":
            queueing = await self._queues.of(workload)
            return Snapshot(workload, pods=(workload,), events=events, age=age, queueing=queueing)
        children = await self._children(workload)
        makers = {uid(workload), *map(uid, children)}
        pods = tuple(pod for pod in self.pods(release) if owners(pod) & makers)
        return Snapshot(workload, children, pods, events, age, queueing=await self._queues.of(workload, pods))

    async def _children(self, workload: Object) -> tuple[Object, ...]:
        """Return the Jobs between a workload and its pods, which no watch reports.

        Only pods have the labels of the server: JobSet and mpi-operator give their Jobs other labels.
        """
        kind = kinds()[workload["kind"]]
        children: list[tuple[str, Object | None]] = []
        for place in kind.children(name(workload)):
            resource, _, child = place.partition("/")
            made = _KINDS[resource]
            children.append((made, await self._cluster.get(made, child, self._namespace)))
        for resource in kind.owned:
            made = _KINDS[resource]
            items, _ = await self._cluster.list(made, self._namespace, kind.selector(workload))
            children += [(made, item) for item in items]
        return tuple(
            {**without_managed_fields(item), "kind": made}
            for made, item in children
            if item is not None and uid(workload) in owners(item)
        )

    async def with_pods_of_now(self, release: str, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the current pods: their watch may lag behind the watch of the workload.

        Raises ClusterError.
        """
        if snapshot.workload["kind"] == "Pod":
            return snapshot
        items = await pods_of(self._cluster, self._namespace, release, self._server)
        listed = {uid(item): {**item, "kind": "Pod"} for item in items}
        makers = {uid(snapshot.workload), *map(uid, snapshot.children)}
        current = {uid(pod): pod for pod in snapshot.pods}
        newer = {key: pod for key, pod in listed.items() if owners(pod) & makers}
        return dataclasses.replace(snapshot, pods=tuple((current | newer).values()))

    def _of(self, release: str) -> Iterable[_Kept]:
        """Return the workload and the pods of a job."""
        return self._of_job[release].values() if release in self._of_job else ()

    async def _watch(self, kind: str) -> None:
        """Watch a kind until cancelled; after an error, or when the version is too old, from a new list."""
        clock = asyncio.get_running_loop().time
        version: str | None = None
        attempt = 0
        reported = ""
        while True:
            begin = clock()
            try:
                version = await self._follow(kind, version)
                reported = ""
            except ExpiredError:
                version = None
            except ClusterError as error:
                version = None
                if isinstance(error, RefusedError) and error.code == 404:
                    self._replace(kind, [])  # no operator for this kind
                    await asyncio.sleep(_ABSENT)
                    continue
                if str(error) != reported:
                    reported = str(error)
                    self._log(f"{kind} cannot be watched in {self._namespace}: {error}")
            if clock() - begin >= _STEADY:
                attempt = 0
            await asyncio.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1

    async def _follow(self, kind: str, version: str | None) -> str:
        """Watch a kind from a version, or from a new list, until the API server ends the watch; return its version."""
        selector = {SERVER: self._server} if kind != "Event" else None
        if version is None:
            items, version = await self._cluster.list(kind, self._namespace, selector)
            self._replace(kind, items)
        async for change, item in self._cluster.watch(kind, self._namespace, version, selector):
            version = str(item["metadata"]["resourceVersion"])
            if change != "BOOKMARK":
                self._remove(kind, uid(item)) if change == "DELETED" else self._add(kind, item)
        return version

    def _replace(self, kind: str, items: Iterable[Object]) -> None:
        for identity in list(self._objects[kind]):
            self._remove(kind, identity)
        for item in items:
            self._add(kind, item)
        self._listed.add(kind)

    def _add(self, kind: str, item: Object) -> None:
        releases = tuple(_releases(item, kind))
        if not releases:
            return
        content = jsonio.compact({**without_managed_fields(item), "kind": kind})
        kept = _Kept(kind, name(item), uid(item), releases, content.encode(errors="surrogatepass"))
        self._objects[kind][kept.uid] = kept
        for release in releases:
            (self._events_of if kind == "Event" else self._of_job)[release][kept.uid] = kept
            self._note(kind, release)
        if kind == "Event" and len(self._objects[kind]) > _MOST_EVENTS:
            self._remove(kind, next(iter(self._objects[kind])))

    def _remove(self, kind: str, identity: str) -> None:
        removed = self._objects[kind].pop(identity, None)
        index = self._events_of if kind == "Event" else self._of_job
        for release in removed.releases if removed else ():
            index[release].pop(identity, None)
            if not index[release]:
                del index[release]
            self._note(kind, release)

    def _note(self, kind: str, release: str) -> None:
        if kind != "Event" or release in self._of_job:
            self._look_at(release)


def _releases(item: Object, kind: str) -> Iterator[str]:
    """Yield the release of an object; for an event, all releases that it may concern."""
    if kind != "Event":
        if release := labels(item).get(JOB):
            yield release
        return
    about = str(mapping(item.get("involvedObject")).get("name", ""))
    yield from (about[: match.end()] for match in _RELEASE.finditer(about))
