"""What the mirror of a namespace keeps of the objects of jobs, and gives back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from packager.service.jobs.mirror import Mirror
from packager.service.prometheus import Figures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RELEASE = "digits-0a1b2c"
LABELS = {"mlpack.dev/job": RELEASE, "mlpack.dev/server": "default"}
MANAGED = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
JOB: dict[str, Any] = {
    "metadata": {
        "name": RELEASE,
        "uid": "u1",
        "labels": LABELS,
        "creationTimestamp": "2026-11-22T10:00:00Z",
        "managedFields": MANAGED,
    },
    "spec": {"backoffLimit": 0},
}
POD: dict[str, Any] = {
    "metadata": {
        "name": f"{RELEASE}-x2x9p",
        "uid": "u2",
        "labels": LABELS,
        "ownerReferences": [{"uid": "u1"}],
        "managedFields": MANAGED,
    },
    "status": {"phase": "Running", "message": "\u00fc\ud800"},
}
OTHER: dict[str, Any] = {"metadata": {"name": "other", "uid": "u3", "labels": {"mlpack.dev/server": "default"}}}
EVENT: dict[str, Any] = {
    "metadata": {"name": "e", "uid": "u4"},
    "involvedObject": {"name": f"{RELEASE}-x2x9p"},
    "reason": "Pulled",
}


class _Cluster:
    """Has a Job, its pod and an event; a second pod comes, and the first one goes."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    async def list(self, kind: str, *_: Any) -> tuple[list[Any], str]:
        return {"Job": [JOB], "Pod": [POD, OTHER], "Event": [EVENT]}.get(kind, []), "1"

    async def watch(self, kind: str, *_: Any) -> AsyncIterator[tuple[str, Any]]:
        if kind == "Pod":
            second = {**POD["metadata"], "name": f"{RELEASE}-second", "uid": "u5", "resourceVersion": "2"}
            yield "ADDED", {**POD, "metadata": second}
            yield "DELETED", {**POD, "metadata": {**POD["metadata"], "resourceVersion": "3"}}
            self.is_over.set()  # the other kinds have been listed: that waits for nothing
        await asyncio.Event().wait()


def test_objects_are_given_back_as_they_were_without_managed_fields() -> None:
    async def run() -> None:
        cluster: Any = _Cluster()
        told: list[str] = []
        mirror = Mirror(cluster, "default", "jobs", told.append, lambda _line: None, Figures())
        task = asyncio.create_task(mirror.run())
        await asyncio.wait_for(cluster.is_over.wait(), 30)
        assert mirror.knows("Job")
        workload = mirror.workload(RELEASE, "Job", RELEASE)
        assert workload is not None
        metadata = {key: value for key, value in JOB["metadata"].items() if key != "managedFields"}
        assert workload == {**JOB, "kind": "Job", "metadata": metadata}
        assert mirror.workload(RELEASE, "MPIJob", RELEASE) is None
        snapshot = mirror.snapshot(RELEASE, workload)
        assert [pod["metadata"]["name"] for pod in snapshot.pods] == [f"{RELEASE}-second"]
        assert snapshot.pods == mirror.pods(RELEASE)
        assert snapshot.pods[0]["status"] == POD["status"]
        assert [event["reason"] for event in snapshot.events] == ["Pulled"]
        assert mirror.pods("other") == ()
        assert set(told) == {RELEASE}
        task.cancel()

    asyncio.run(run())
