"""The objects of jobs that the mirror of a namespace stores and returns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from packager.service.jobs.mirror import Mirror
from packager.workloads.jobset import attempts
from tests.service.fake import FakeCluster

RELEASE = "digits-0a1b2c"
_CREATED = "2026-11-22T10:00:00Z"
LABELS = {"mlpack.dev/job": RELEASE, "mlpack.dev/server": "default"}


def test_mirror_returns_unchanged_objects_without_managed_fields() -> None:
    cluster = FakeCluster()
    whole = {"name": RELEASE, "uid": "u1", "namespace": "tests", "labels": LABELS, "creationTimestamp": _CREATED}
    cluster.put({"kind": "Job", "metadata": {**whole, "managedFields": [{"manager": "kubelet"}]}, "spec": {"a": [1]}})
    first, second = f"{RELEASE}-x2x9p", f"{RELEASE}-second"
    cluster.put({**_item("Pod", first, "u1", LABELS), "status": {"message": "\u00fc\ud800"}})
    cluster.put(_item("Pod", "other", "u1", {"mlpack.dev/server": "default"}))
    cluster.put({**_item("Event", "e", "u9", {}), "involvedObject": {"name": first}, "reason": "Pulled"})
    told: list[str] = []

    async def run() -> None:
        connected: Any = cluster
        mirror = Mirror(connected, "default", "tests", told.append, lambda _line: None)
        task = asyncio.create_task(mirror.run())

        async def until(names: list[str]) -> None:
            async with asyncio.timeout(30):
                while [pod["metadata"]["name"] for pod in mirror.pods(RELEASE)] != names or not mirror.knows("Job"):  # noqa: ASYNC110 - the mirror sends no event
                    await asyncio.sleep(0.01)

        await until([first])
        assert mirror.pods(RELEASE)[0]["status"] == {"message": "\u00fc\ud800"}
        workload = mirror.workload(RELEASE, "Job", RELEASE)
        assert workload is not None
        assert workload["metadata"].keys() == {*whole, "resourceVersion"}
        assert workload["spec"] == {"a": [1]}
        assert mirror.workload(RELEASE, "MPIJob", RELEASE) is None
        cluster.put(_item("Pod", second, "u1", LABELS))
        await cluster.delete("Pod", first, "tests")
        await until([second])
        snapshot = await mirror.snapshot(RELEASE, workload)
        assert snapshot.pods == mirror.pods(RELEASE)
        assert [event["reason"] for event in snapshot.events] == ["Pulled"]
        assert mirror.pods("other") == ()
        task.cancel()

    asyncio.run(run())
    assert set(told) == {RELEASE}


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
        mirror = Mirror(connected, "default", "tests", lambda _release: None, lambda _line: None)
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
