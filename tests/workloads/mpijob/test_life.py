"""The state of an MPIJob, beyond the recordings of real clusters."""

from __future__ import annotations

import pytest

from packager.kubernetes.snapshot import Snapshot
from packager.workloads.mpijob.life import MPIJob
from tests.fake_cluster import Object, item


@pytest.mark.parametrize(("status", "attempts"), [({}, None), ({"active": 1}, 1), ({"failed": 2, "succeeded": 1}, 3)])
def test_attempts_count_pods_of_the_launcher(status: Object, attempts: int | None) -> None:
    job = item("MPIJob", "demo", spec={})
    launcher = item("Job", "demo-launcher", spec={"backoffLimit": 2}, status=status)
    assert MPIJob().attempts(Snapshot(job)) is None
    assert MPIJob().attempts(Snapshot(job, (launcher,))) == attempts
