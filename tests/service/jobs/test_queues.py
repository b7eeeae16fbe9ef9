"""Requests of the server to Kueue in a namespace, and how often it makes them."""

from __future__ import annotations

import asyncio
from typing import Any

from packager.service.jobs.kube import RefusedError
from packager.service.jobs.mirror import Queues

JOB: dict[str, Any] = {
    "kind": "Job",
    "metadata": {"name": "a", "uid": "u1", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
    "spec": {"suspend": True},
}
WORKLOAD: dict[str, Any] = {"metadata": {"name": "w", "uid": "u2", "managedFields": [], "ownerReferences": []}}


class _Cluster:
    """A cluster with a Workload and a LocalQueue, which counts its requests."""

    def __init__(self, code: int = 0) -> None:
        self.requests: list[str] = []
        self.code = code

    async def list(self, kind: str, *_: Any) -> tuple[list[Any], str]:
        self.requests.append(f"list {kind}")
        if self.code:
            raise RefusedError("no", self.code)
        return [WORKLOAD], "1"

    async def get(self, kind: str, name: str, _namespace: str) -> Any:
        self.requests.append(f"get {kind} {name}")
        return {"metadata": {"name": name}, "spec": {"clusterQueue": "research"}}


def read(cluster: Any, *jobs: dict[str, Any]) -> list[Any]:
    async def run() -> list[Any]:
        queues = Queues(cluster, "jobs")
        return list(await asyncio.gather(*(queues.of(job) for job in jobs)))

    return asyncio.run(run())


def test_objects_of_kueue_are_read_once_for_all_held_jobs() -> None:
    cluster = _Cluster()
    first, second = read(cluster, JOB, JOB)
    assert cluster.requests == ["list Workload", "get LocalQueue user-queue"]
    assert first == second
    assert (first.name, first.cluster_queue) == ("user-queue", "research")
    assert [one["metadata"] for one in first.workloads] == [{"name": "w", "uid": "u2", "ownerReferences": []}]


def test_jobs_that_kueue_does_not_hold_are_not_looked_up() -> None:
    cluster = _Cluster()
    started = {**JOB, "spec": {"suspend": False}}
    elsewhere = {**JOB, "metadata": {"name": "a", "uid": "u1"}}
    assert read(cluster, started, elsewhere) == [None, None]
    assert cluster.requests == []


def test_server_without_the_permission_asks_once_a_minute() -> None:
    for code in (403, 404):
        cluster = _Cluster(code)
        assert read(cluster, JOB, JOB, JOB) == [None, None, None]
        assert cluster.requests == ["list Workload"]
