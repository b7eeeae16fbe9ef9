"""The logs of pods that are about to be deleted are read once, of all in one call, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from packager.base.errors import UnreachableError
from packager.base.process import Finished
from packager.cluster.kept_logs import LogKeeper
from packager.kubernetes.objects import name
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.jobset.life import JobSet
from tests.fake_cluster import item

if TYPE_CHECKING:
    from packager.kubectl.client import Kubectl

WORKLOAD = item("JobSet", "a", metadata={"creationTimestamp": "2026-11-21T00:00:00Z"}, spec={}, status={})
LOGS = (
    "[pod/a-node-0-0-x/node] 10%\r20%\n[pod/a-node-0-1-x/node] one\n[pod/a-node-0-1-x/node] two\n"
    "[pod/a-node-0-1-x/node] unable to retrieve container logs for containerd://1\nerror: no\n[pod/other/x] y\n"
)


def pod(index: int, **metadata: Any) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "node"}
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    times = {"creationTimestamp": "2026-11-21T00:00:01Z"}
    return item(
        "Pod",
        f"a-node-0-{index}-x",
        metadata={**times, "labels": labels, "annotations": annotations, **metadata},
        spec={"containers": [{"name": "node"}]},
        status={"phase": "Running", "containerStatuses": []},
    )


GOING = {"deletionTimestamp": "2026-11-21T00:00:40Z", "deletionGracePeriodSeconds": 30}


class FakeKubectl:
    """Answers with logs, and keeps what it was asked."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.calls: list[tuple[str, ...]] = []

    def run(self, *arguments: str, timeout: float) -> Finished:
        assert timeout
        self.calls.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Finished(0, self.answer, "")


def kept(kubectl: FakeKubectl, *snapshots: Snapshot | None) -> list[Any]:
    waiting = list(snapshots)
    keeper = LogKeeper(lambda *, events: waiting.pop(0), cast("Kubectl", kubectl), JobSet())  # noqa: ARG005
    taken = [keeper(events=True) for _ in snapshots]
    return [one and {name(log.pod): log.lines for log in one.logs} for one in taken]


def test_nothing_is_read_while_all_is_well() -> None:
    kubectl = FakeKubectl(LOGS)
    assert kept(kubectl, Snapshot(WORKLOAD, pods=(pod(0), pod(1))), None) == [{}, None]
    assert kubectl.calls == []


def test_all_pods_are_read_once_and_kept_when_they_are_gone() -> None:
    kubectl = FakeKubectl(LOGS)
    present, gone = Snapshot(WORKLOAD, pods=(pod(0), pod(1, **GOING))), Snapshot(WORKLOAD)
    logs = {"a-node-0-0-x": ("20%",), "a-node-0-1-x": ("one", "two")}
    assert kept(kubectl, present, present, gone) == [logs, logs, logs]
    selector = "--selector=jobset.sigs.k8s.io/jobset-name=a"
    assert kubectl.calls == [("logs", selector, "--tail=200", "--prefix", "--ignore-errors")]


def test_a_cluster_that_does_not_answer_costs_the_logs_and_no_more() -> None:
    present = Snapshot(WORKLOAD, pods=(pod(1, **GOING),))
    assert kept(FakeKubectl(UnreachableError("away")), present) == [{"a-node-0-1-x": ()}]
