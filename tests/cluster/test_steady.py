"""Tests that a workload that runs is read again only after a change, and that no change is missed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest

from packager.cluster.follow import follow
from packager.cluster.steady import SteadyReader
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import kinds
from tests.cluster.test_follow import Time
from tests.fake_cluster import item

if TYPE_CHECKING:
    from packager.cluster.podwatch import PodWatch

BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
STATUS = {
    "name": "main",
    "image": "a:1",
    "restartCount": 0,
    "state": {"running": {"startedAt": "2026-11-21T00:00:01Z"}},
}
POD = item(
    "Pod",
    "a",
    metadata={"uid": "a", "creationTimestamp": "2026-11-21T00:00:00Z"},
    spec={"containers": [{"name": "main"}], "nodeName": "n"},
    status={"phase": "Running", "containerStatuses": [STATUS]},
)
RUNNING = Snapshot(POD, pods=(POD,))


@dataclass
class Watch:
    """A watch whose events the test counts itself."""

    changes: int | None = None
    begun: list[str] = field(default_factory=list)

    def begin(self, pods: str) -> None:
        self.begun.append(pods)


class Cluster:
    """A cluster with one workload, which counts how often it is read."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = RUNNING
        self.reads: list[bool] = []
        self.seconds = 0.0
        self.watch = Watch()
        self.read = SteadyReader(self._read, kinds()["Pod"], cast("PodWatch", self.watch), self._now)

    def _read(self, *, events: bool) -> Snapshot | None:
        self.reads.append(events)
        return self.snapshot

    def _now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_workload_is_read_once_while_its_watch_sees_no_change(cluster: Cluster) -> None:
    cluster.watch.changes = 3
    first = cluster.read(events=False)
    cluster.snapshot = None
    assert cluster.read(events=False) == cluster.read(events=False)
    assert first is RUNNING
    assert cluster.reads == [False]


def test_workload_is_read_again_after_a_change(cluster: Cluster) -> None:
    cluster.watch.changes = 3
    cluster.read(events=False)
    cluster.watch.changes = 4
    cluster.snapshot = None
    assert cluster.read(events=False) is None
    assert cluster.reads == [False, False]


def test_change_during_a_reading_is_not_missed(cluster: Cluster) -> None:
    cluster.watch.changes = 3

    def read(*, events: bool) -> Snapshot | None:
        cluster.reads.append(events)
        cluster.watch.changes = 4
        return RUNNING

    reader = SteadyReader(read, kinds()["Pod"], cast("PodWatch", cluster.watch), lambda: BEGIN)
    for _ in range(4):
        reader(events=False)
    assert cluster.reads == [False, False]


@pytest.mark.parametrize("changes", [(None, None), (3, None), (None, 3)])
def test_workload_is_read_in_every_poll_without_a_working_watch(
    cluster: Cluster, changes: tuple[int | None, int | None]
) -> None:
    for number in changes:
        cluster.watch.changes = number
        cluster.read(events=False)
    assert cluster.reads == [False, False]


def test_follower_reads_a_steady_workload_in_every_tenth_poll_and_reports_each_second(cluster: Cluster) -> None:
    cluster.watch.changes = 3
    time, seen = Time(), list[float]()
    for _ in follow(cluster.read, kinds()["Pod"], clock=time, sleep=time.sleep):
        seen.append(time.now)
        if time.now >= 60:
            break
    assert seen == pytest.approx(list(map(float, range(61))))
    assert len(cluster.reads) <= 15
    assert cluster.reads.count(True) >= 6
