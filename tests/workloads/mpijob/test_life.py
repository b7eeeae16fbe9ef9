"""The state of an MPIJob, beyond the recordings of real clusters."""

from __future__ import annotations

from packager.kubernetes.snapshot import Snapshot
from packager.workloads.mpijob.life import MPIJob
from tests.fake_cluster import item


def test_attempts_count_pods_of_the_launcher() -> None:
    for status, attempts in [({}, None), ({"active": 1}, 1), ({"failed": 2, "succeeded": 1}, 3)]:
        job = item("MPIJob", "demo", spec={})
        launcher = item("Job", "demo-launcher", spec={"backoffLimit": 2}, status=status)
        assert MPIJob().attempts(Snapshot(job)) is None
        assert MPIJob().attempts(Snapshot(job, (launcher,))) == attempts
