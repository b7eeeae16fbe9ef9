"""Tests that the logs of pods that are being deleted are read once, in one call for all pods, and kept."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from packager.base.errors import UnreachableError
from packager.cluster.kept_logs import LogKeeper
from packager.kubernetes.objects import name
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.jobset.life import JobSet
from tests.fake_cluster import item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packager.kubernetes.kubectl.client import Kubectl

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


class Clock:
    """A clock that advances by `step` seconds each time it is read."""

    def __init__(self, step: float = 0) -> None:
        self.time = 0.0
        self.step = step

    def clock(self) -> float:
        self.time += self.step
        return self.time


class Output:
    """Output of kubectl, one part per read."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = iter(parts)

    def read1(self, _size: int) -> bytes:
        return next(self.parts, b"")


class FakeKubectl:
    """A kubectl that answers with logs and records its calls."""

    def __init__(self, answer: str | Iterable[bytes] | Exception, step: float = 0) -> None:
        self.answer = [answer.encode()] if isinstance(answer, str) else answer
        self.calls: list[tuple[str, ...]] = []
        self.runner = Clock(step)

    def remaining(self, timeout: float) -> float:
        return timeout

    @contextmanager
    def start(self, *arguments: str, idle: Callable[[float], object]) -> Iterator[Any]:
        assert idle(1)
        self.calls.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        yield SimpleNamespace(stdout=Output(self.answer))


def kept(kubectl: FakeKubectl, *snapshots: Snapshot | None) -> list[Any]:
    waiting = list(snapshots)
    keeper = LogKeeper(lambda *, events: waiting.pop(0), cast("Kubectl", kubectl), JobSet())  # noqa: ARG005
    taken = [keeper(events=True) for _ in snapshots]
    return [one and {name(log.pod): log.lines for log in one.logs} for one in taken]


def test_log_keeper_reads_no_logs_while_pods_are_running() -> None:
    kubectl = FakeKubectl(LOGS)
    assert kept(kubectl, Snapshot(WORKLOAD, pods=(pod(0), pod(1))), None) == [{}, None]
    assert kubectl.calls == []


def test_log_keeper_reads_all_pods_once_and_keeps_logs_of_deleted_pods() -> None:
    kubectl = FakeKubectl(LOGS)
    present, gone = Snapshot(WORKLOAD, pods=(pod(0), pod(1, **GOING))), Snapshot(WORKLOAD)
    logs = {"a-node-0-0-x": ("20%",), "a-node-0-1-x": ("one", "two")}
    assert kept(kubectl, present, present, gone) == [logs, logs, logs]
    selector = "--selector=jobset.sigs.k8s.io/jobset-name=a"
    assert kubectl.calls == [("logs", selector, "--tail=200", "--prefix", "--ignore-errors")]


def test_running_pod_that_is_deleted_before_its_log_is_read_is_kept_without_lines() -> None:
    running = {"name": "node", "state": {"running": {}}}
    before = [{**pod(index), "status": {"phase": "Running", "containerStatuses": [running]}} for index in (0, 1)]
    waiting = pod(2)
    after = Snapshot(WORKLOAD, pods=(pod(1, **GOING),))
    logs = {"a-node-0-0-x": (), "a-node-0-1-x": ("one", "two")}
    assert kept(FakeKubectl(LOGS), Snapshot(WORKLOAD, pods=(*before, waiting)), after) == [{}, logs]
    assert kept(FakeKubectl(LOGS), Snapshot(WORKLOAD, pods=tuple(before)), Snapshot(WORKLOAD)) == [{}, {}]


def test_log_keeper_returns_empty_logs_if_the_cluster_does_not_answer() -> None:
    present = Snapshot(WORKLOAD, pods=(pod(1, **GOING),))
    assert kept(FakeKubectl(UnreachableError("away")), present) == [{"a-node-0-1-x": ()}]


PREFIX = b"[pod/a-node-0-0-x/node] "


@pytest.mark.thorough
def test_long_log_of_one_pod_does_not_displace_another_log() -> None:
    """One pod prints 128 MiB: its end is kept."""
    flood = (PREFIX + b"x" * 1023 + b"\n") * 1024
    other = b"[pod/a-node-0-1-x/node] the reason\n"
    present = Snapshot(WORKLOAD, pods=(pod(0), pod(1, **GOING)))
    parts = itertools.chain(itertools.repeat(flood, 128), [PREFIX + b"Traceback\n", other])
    [logs] = kept(FakeKubectl(parts), present)
    assert logs["a-node-0-1-x"] == ("the reason",)
    lines = logs["a-node-0-0-x"]
    assert (len(lines), set(lines[:-1]), lines[-1]) == (200, {"x" * 1023}, "Traceback")


def test_log_is_read_again_after_its_pod_has_ended() -> None:
    running, ended = pod(1), pod(1)
    ended["status"]["phase"] = "Failed"
    kubectl = FakeKubectl(LOGS)
    first, second, third = (Snapshot(WORKLOAD, pods=(pod(0, **GOING), one)) for one in (running, ended, ended))
    waiting = [first, second, third]
    keeper = LogKeeper(lambda *, events: waiting.pop(0), cast("Kubectl", kubectl), JobSet())  # noqa: ARG005
    keeper(events=True)
    kubectl.answer = [b"[pod/a-node-0-1-x/node] two\n[pod/a-node-0-1-x/node] Traceback\n"]
    for _ in range(2):
        taken = keeper(events=True)
        assert taken
        logs = {name(log.pod): log.lines for log in taken.logs}
        assert logs == {"a-node-0-0-x": ("20%",), "a-node-0-1-x": ("two", "Traceback")}
    assert len(kubectl.calls) == 2
