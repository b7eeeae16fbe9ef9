"""Tests that the logs of pods that are being deleted are read once, and kept."""

from typing import Any, cast

import pytest

from packager.cluster import podwatch
from packager.cluster.podwatch import LogKeeper
from packager.kubernetes.kubectl.client import Kubectl  # noqa: TC001 - named in casts
from packager.kubernetes.objects import name
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.jobset.life import JobSet
from tests.cluster.test_logs import BROKEN, ENDED, FakeKubectl, stamped
from tests.fake_cluster import item

WORKLOAD = item("JobSet", "a", metadata={"creationTimestamp": "2026-11-21T00:00:00Z"}, spec={}, status={})
GOING: Any = {"deletionTimestamp": "2026-11-21T00:00:40Z", "deletionGracePeriodSeconds": 30}


def pod(index: int, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "node"}
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    times = {"creationTimestamp": "2026-11-21T00:00:01Z"}
    return item(
        "Pod",
        f"a-node-0-{index}-x",
        metadata={**times, "labels": labels, "annotations": annotations, **metadata},
        spec={"containers": [{"name": "node"}]},
        status={"phase": phase, "containerStatuses": [{"name": "node", "state": {"running": {}}}]},
    )


def kept(kubectl: FakeKubectl, *snapshots: Snapshot | None) -> list[Any]:
    waiting = list(snapshots)
    keeper = LogKeeper(lambda *, events: waiting.pop(0), cast("Kubectl", kubectl), JobSet())  # noqa: ARG005
    taken = [keeper(events=True) for _ in snapshots]
    return [one and {name(log.pod): log.lines for log in one.logs} for one in taken]


def test_log_keeper_reads_no_logs_while_pods_are_running() -> None:
    kubectl = FakeKubectl([])
    assert kept(kubectl, Snapshot(WORKLOAD, pods=(pod(0), pod(1))), None) == [{}, None]
    assert kubectl.calls == []


def test_log_keeper_reads_each_log_once_and_keeps_logs_of_deleted_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podwatch, "MOST_STREAMS", 1)
    kubectl = FakeKubectl([(stamped("01 10%\r20%"), ENDED), (stamped("01 one", "02 two"), ENDED)])
    present, gone = Snapshot(WORKLOAD, pods=(pod(0), pod(1, **GOING))), Snapshot(WORKLOAD)
    logs = {"a-node-0-0-x": ("20%",), "a-node-0-1-x": ("one", "two")}
    assert kept(kubectl, present, present, gone) == [logs, logs, logs]
    assert kubectl.calls == [f"logs a-node-0-{index}-x --container=node --timestamps --tail=200" for index in (0, 1)]


def test_running_pod_that_is_deleted_before_its_log_is_read_is_kept_without_lines() -> None:
    before = [pod(0), pod(1)]
    after = Snapshot(WORKLOAD, pods=(pod(1, **GOING),))
    kubectl = FakeKubectl([(stamped("01 one"), ENDED)])
    logs = {"a-node-0-0-x": (), "a-node-0-1-x": ("one",)}
    assert kept(kubectl, Snapshot(WORKLOAD, pods=tuple(before)), after) == [{}, logs]
    assert kept(kubectl, Snapshot(WORKLOAD, pods=tuple(before)), Snapshot(WORKLOAD)) == [{}, {}]


def test_log_keeper_returns_empty_logs_if_the_cluster_does_not_answer() -> None:
    present = Snapshot(WORKLOAD, pods=(pod(1, **GOING),))
    assert kept(FakeKubectl([(b"", BROKEN)]), present) == [{"a-node-0-1-x": ()}]


def test_log_is_read_again_after_its_pod_has_ended() -> None:
    first, second = (Snapshot(WORKLOAD, pods=(one,)) for one in (pod(1, **GOING), pod(1, "Failed")))
    kubectl = FakeKubectl([(stamped("01 two"), ENDED), (stamped("01 two", "02 Traceback"), ENDED)])
    early, late = {"a-node-0-1-x": ("two",)}, {"a-node-0-1-x": ("two", "Traceback")}
    assert kept(kubectl, first, second, second) == [early, late, late]
    assert len(kubectl.calls) == 2
