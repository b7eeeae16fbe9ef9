"""Queues: what Kueue says of the jobs of a namespace that it holds. Tests: service/jobs/test_queues.py."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.kubernetes.snapshot import Queueing
from packager.service.jobs.kube import without_managed_fields
from packager.workloads import kueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.objects import Object
    from packager.service.jobs.kube import Cluster

_FRESH = 5.0
"""The seconds for which the Workloads of a namespace are read once, for all of its jobs."""

_REFUSED = 60.0
"""The seconds between two attempts where the server may not read them, or the cluster does not have them."""


class Queues:
    """Kueue's objects in one namespace.

    Args:
        cluster: The cluster.
        namespace: The namespace.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._workloads: tuple[Object, ...] | None = None
        self._local_queues: dict[str, Object | None] = {}
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def of(self, workload: Object, pods: Sequence[Object] = ()) -> Queueing | None:
        """Return the answers of Kueue about a workload that it holds; None if it does not, or they cannot be read.

        Args:
            workload: The workload of a job.
            pods: The pods of that workload.
        """
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
