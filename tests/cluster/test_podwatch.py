"""Tests that a watch keeps the states and logs of pods that begin and end between two polls."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from packager.base.process import Finished
from packager.cluster import podwatch
from packager.cluster.podwatch import LogKeeper, PodWatch, events
from packager.kubernetes.kubectl.client import Kubectl  # noqa: TC001 - named in casts
from packager.kubernetes.objects import Object, name
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.jobset.life import JobSet
from tests.fake_cluster import item

BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
PODS = "--selector=app=a"
FAILED = {"terminated": {"exitCode": 3, "startedAt": "2026-11-21T00:00:01Z", "finishedAt": "2026-11-21T00:00:02Z"}}
FORBIDDEN = 'Error from server (Forbidden): pods is forbidden: User "u" cannot watch resource "pods" in API group ""'


def pod(name: str, state: Object, phase: str = "Running", **labels: str) -> Object:
    containers = [{"name": "node", "image": "a:1", "state": state, "restartCount": 0}]
    return item(
        "Pod",
        name,
        metadata={"uid": name, "creationTimestamp": "2026-11-21T00:00:00Z", "labels": labels},
        spec={"containers": [{"name": "node"}], "restartPolicy": "Never"},
        status={"phase": phase, "containerStatuses": containers},
    )


def lines(*watched: tuple[str, Object]) -> bytes:
    return b"".join(json.dumps({"type": kind, "object": pod}).encode() + b"\n" for kind, pod in watched)


class Pipe(io.BytesIO):
    """Output that ends only when its program is stopped."""

    def __init__(self, data: bytes, *, is_endless: bool) -> None:
        super().__init__(data)
        self.is_stopped = threading.Event()
        self.is_endless = is_endless

    def read1(self, size: int | None = -1) -> bytes:
        data = super().read1(size)
        if not data and self.is_endless:
            assert self.is_stopped.wait(10)
        return data


@dataclass(eq=False)
class Program:
    stdout: Pipe
    finished: Finished

    def wait(self) -> Finished:
        return self.finished

    def stop(self) -> None:
        self.stdout.is_stopped.set()


@dataclass
class FakeKubectl:
    """A kubectl whose watches print `watched` one after the other; the last one does not end by itself."""

    watched: list[bytes]
    refusal: str = ""
    calls: list[str] = field(default_factory=list)

    @contextmanager
    def start(self, *arguments: str) -> Iterator[Program]:
        self.calls.append(" ".join(arguments))
        data = self.watched.pop(0) if self.watched else b""
        is_last = not self.watched and not self.refusal
        yield Program(Pipe(data, is_endless=is_last), Finished(1, "", self.refusal))


def watch(kubectl: FakeKubectl, begin: Callable[[Any], Any] | None = None) -> PodWatch:
    return PodWatch(cast("Kubectl", kubectl), begin)


def until(condition: Callable[[], object]) -> None:
    waiting = threading.Event()
    for _ in range(500):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen within 5 s")


def test_watch_keeps_last_state_of_deleted_pod() -> None:
    running, failed = pod("a", {"running": {}}), pod("a", FAILED, "Failed")
    kubectl = FakeKubectl([lines(("ADDED", running), ("MODIFIED", failed), ("DELETED", failed))])
    with watch(kubectl) as watching:
        watching.begin(PODS)
        until(lambda: watching.pods_since(BEGIN) == [failed])
        watching.begin(PODS)
    assert kubectl.calls == ["get pods --selector=app=a --watch --output-watch-events --output=json"]


def test_watch_passes_on_living_pods() -> None:
    one, two = pod("a", {"running": {}}), pod("b", {"running": {}})
    seen: list[list[str]] = []
    kubectl = FakeKubectl([lines(("ADDED", one), ("ADDED", two), ("DELETED", one))])
    with watch(kubectl, lambda pods: seen.append([name(one) for one in pods])) as watching:
        watching.begin(PODS)
        until(lambda: len(seen) == 3)
    assert seen == [["a"], ["a", "b"], ["b"]]


def test_watch_pauses_longer_and_longer_while_each_version_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each watch begins with the pods that exist, so that events alone do not show that it works."""
    pauses: list[float | None] = []
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    running, failed = pod("a", {"running": {}}), pod("a", FAILED, "Failed")
    kubectl = FakeKubectl([lines(("ADDED", running), ("ERROR", gone))] * 7 + [lines(("ADDED", failed))] * 3)

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return self.is_set()

    with watch(kubectl) as watching:
        monkeypatch.setattr(watching, "_is_over", Over())
        watching.begin(PODS)
        until(lambda: not kubectl.watched)
        assert watching.pods_since(BEGIN) == [failed]
    assert pauses[:9] == [1, 2, 4, 8, 16, 30, 30, 1, 1]


def test_watch_ends_without_permission_to_watch_pods() -> None:
    kubectl = FakeKubectl([b""], refusal=FORBIDDEN)
    with watch(kubectl) as watching:
        watching.begin(PODS)
        until(lambda: watching.is_refused)
    assert len(kubectl.calls) == 1


def test_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podwatch, "_OBJECT_BYTES", 10)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        list(events(io.BytesIO(b"{" * 20)))


def test_attempt_between_two_snapshots_is_reported_with_its_cause() -> None:
    """The first attempt is in no snapshot; only the watch has seen its pods."""
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/restart-attempt": "0"}
    kubectl = FakeKubectl([lines(("ADDED", pod("a-node-0-0-x", FAILED, "Failed", **labels)))])
    workload = item(
        "JobSet",
        "a",
        metadata={"creationTimestamp": "2026-11-21T00:00:00Z"},
        spec={"failurePolicy": {"maxRestarts": 1}},
        status={"restarts": 1},
    )
    with watch(kubectl) as watching:
        snapshot = Snapshot(workload)
        keeper = LogKeeper(lambda *, events: snapshot, cast("Kubectl", kubectl), JobSet(), watching)  # noqa: ARG005
        keeper(events=True)
        until(lambda: watching.pods_since(BEGIN))
        kept = keeper(events=True)
    assert kept
    messages = [finding.message for finding in JobSet().warnings(kept)]
    assert messages == ["attempt 1 of 2: node 0: container node ended with exit code 3"]
