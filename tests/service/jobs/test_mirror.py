"""The objects of jobs that the mirror of a namespace stores and returns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.jobs.mirror import Mirror
from packager.service.prometheus import Figures
from packager.workloads.jobset import attempts
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RELEASE = "digits-0a1b2c"
_CREATED = "2026-11-22T10:00:00Z"
LABELS = {"mlpack.dev/job": RELEASE, "mlpack.dev/server": "default"}
MANAGED = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
JOB: dict[str, Any] = {
    "metadata": {
        "name": RELEASE,
        "uid": "u1",
        "labels": LABELS,
        "creationTimestamp": _CREATED,
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
    """A cluster with a Job, its pod and an event; a second pod is added, and then the first one is deleted."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    async def list(self, kind: str, *_: Any) -> tuple[list[Any], str]:
        return {"Job": [JOB], "Pod": [POD, OTHER], "Event": [EVENT]}.get(kind, []), "1"

    async def watch(self, kind: str, *_: Any) -> AsyncIterator[tuple[str, Any]]:
        if kind == "Pod":
            second = {**POD["metadata"], "name": f"{RELEASE}-second", "uid": "u5", "resourceVersion": "2"}
            yield "ADDED", {**POD, "metadata": second}
            yield "DELETED", {**POD, "metadata": {**POD["metadata"], "resourceVersion": "3"}}
            self.is_over.set()  # listing does not wait, so the other kinds have been listed
        await asyncio.Event().wait()


def test_mirror_returns_unchanged_objects_without_managed_fields() -> None:
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
        snapshot = await mirror.snapshot(RELEASE, workload)
        assert [pod["metadata"]["name"] for pod in snapshot.pods] == [f"{RELEASE}-second"]
        assert snapshot.pods == mirror.pods(RELEASE)
        assert snapshot.pods[0]["status"] == POD["status"]
        assert [event["reason"] for event in snapshot.events] == ["Pulled"]
        assert mirror.pods("other") == ()
        assert set(told) == {RELEASE}
        task.cancel()

    asyncio.run(run())


def _item(kind: str, name: str, owner: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-of-{name}", "namespace": "tests", "labels": labels}
    return {"kind": kind, "metadata": {**metadata, "ownerReferences": [{"uid": owner}]}, "status": {}}


@pytest.mark.parametrize(
    ("kind", "job", "labels"),
    [
        ("MPIJob", f"{RELEASE}-launcher", {"app": RELEASE}),  # mpi_job_controller.go: newLauncherJob
        ("JobSet", f"{RELEASE}-worker-0", {attempts.JOBSET: RELEASE}),  # jobset_controller.go: constructJob
    ],
)
def test_mirror_finds_pods_through_jobs_without_server_labels(kind: str, job: str, labels: dict[str, str]) -> None:
    cluster = FakeCluster()
    whole = {"name": RELEASE, "uid": "u1", "namespace": "tests", "labels": LABELS, "creationTimestamp": _CREATED}
    cluster.put({"kind": kind, "metadata": whole, "spec": {}})
    cluster.put(_item("Job", job, "u1", labels))
    cluster.put(_item("Pod", f"{job}-x2x9p", f"uid-of-{job}", LABELS))
    cluster.put(_item("Job", f"{RELEASE}-other", "u2", labels))
    cluster.put(_item("Pod", f"{RELEASE}-other-x2x9p", f"uid-of-{RELEASE}-other", LABELS))

    async def run() -> None:
        connected: Any = cluster
        mirror = Mirror(connected, "default", "tests", lambda _release: None, lambda _line: None, Figures())
        task = asyncio.create_task(mirror.run())
        async with asyncio.timeout(30):
            while not (mirror.knows(kind) and len(mirror.pods(RELEASE)) == 2):  # noqa: ASYNC110 - the mirror sends no event
                await asyncio.sleep(0.01)
        workload = mirror.workload(RELEASE, kind, RELEASE)
        assert workload is not None
        snapshot = await mirror.snapshot(RELEASE, workload)
        assert [(item["kind"], item["metadata"]["name"]) for item in snapshot.children] == [("Job", job)]
        assert [pod["metadata"]["name"] for pod in snapshot.pods] == [f"{job}-x2x9p"]
        task.cancel()

    asyncio.run(run())
