"""The wait: what it believes, when it stops, and what it survives. Time and the cluster are made up here."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from packager.cluster.engines import ENGINES
from packager.cluster.follow import SILENCE, Update, follow
from packager.cluster.verdict import Phase
from packager.errors import ClusterError, UnreachableError
from tests.test_diagnosis import recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.cluster.snapshot import Snapshot


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


def play(
    kind: str, show: Callable[[float], Snapshot | None], *, rendered: str | None = None, until: float = 2000
) -> list[tuple[float, Update]]:
    """Follow what `show` gives at each second, to its end or for `until` seconds."""
    time = Time()

    def read(*, events: bool) -> Snapshot | None:
        assert isinstance(events, bool)
        return show(time.now)

    seen = []
    for update in follow(read, ENGINES[kind], rendered=rendered, clock=time, sleep=time.sleep):
        seen.append((time.now, update))
        if time.now > until:
            break
    return seen


def test_it_ends_with_the_workload() -> None:
    running, done = recorded("mpijob-unschedulable"), recorded("mpijob-succeeded")
    done.workload["metadata"]["uid"] = running.workload["metadata"]["uid"]
    seen = play("MPIJob", lambda now: running if now < 5 else done)
    assert [update.verdict.phase for _, update in seen] == [Phase.STUCK] * 5 + [Phase.SUCCEEDED]
    assert seen[-1][1].is_last


@pytest.mark.parametrize(("takes", "every"), [(0.0, 1.0), (0.3, 1.0), (0.7, 2.1), (3.0, 9.0)])
def test_looks_that_take_long_are_taken_less_often(takes: float, every: float) -> None:
    time, looks = Time(), list[float]()

    def read(*, events: bool) -> Snapshot:
        assert isinstance(events, bool)
        looks.append(time.now)
        time.now += takes
        return recorded("mpijob-succeeded" if len(looks) == 4 else "mpijob-quota")

    updates = list(follow(read, ENGINES["MPIJob"], clock=time, sleep=time.sleep))
    assert len(updates) == 4
    assert looks == pytest.approx([0, every, 2 * every, 3 * every])


@pytest.mark.parametrize(
    ("case", "kind", "ends"),
    [("mpijob-rejected", "MPIJob", 0), ("pod-image", "Pod", 15), ("mpijob-image", "MPIJob", 15)],
)
def test_what_only_a_person_mends_ends_it_soon(case: str, kind: str, ends: float) -> None:
    time, last = play(kind, lambda _now: recorded(case))[-1]
    assert last.is_last
    assert last.verdict.phase is Phase.STUCK
    assert time == pytest.approx(ends, abs=1.1)


def test_what_may_pass_is_waited_for() -> None:
    assert not play("MPIJob", lambda _now: recorded("mpijob-quota"), until=1000)[-1][1].is_last


def test_a_lost_connection_is_told_and_survived() -> None:
    snapshot, done = recorded("pod-unschedulable"), recorded("pod-succeeded")
    done.workload["metadata"]["uid"] = snapshot.workload["metadata"]["uid"]

    def show(now: float) -> Snapshot:
        if 2 <= now < 22:
            raise UnreachableError("connection refused")
        return snapshot if now < 25 else done

    seen = play("Pod", show)
    silent = [update for _, update in seen if update.silence]
    assert len(silent) == 20
    assert silent[-1].silence == pytest.approx(20, abs=1.1)
    assert seen[-1][1].verdict.phase is Phase.SUCCEEDED


def test_a_server_that_forbids_everything_while_it_starts_is_not_believed() -> None:
    snapshot = recorded("pod-unschedulable")

    def show(now: float) -> Snapshot:
        if now == 2:
            raise ClusterError('pods "x" is forbidden: RBAC: clusterrole.rbac.authorization.k8s.io not found')
        return snapshot

    assert len(play("Pod", show, until=5)) >= 5


def test_a_refusal_from_the_start_is_an_error_at_once() -> None:
    def show(_now: float) -> Snapshot:
        raise ClusterError("forbidden")

    with pytest.raises(ClusterError, match="forbidden"):
        play("Pod", show)


def test_a_cluster_that_stays_silent_is_given_up() -> None:
    snapshot = recorded("pod-unschedulable")

    def show(now: float) -> Snapshot:
        if now >= 2:
            raise UnreachableError("connection refused")
        return snapshot

    with pytest.raises(UnreachableError):
        play("Pod", show, until=SILENCE * 2)


def test_a_workload_that_somebody_deletes_ends_it() -> None:
    snapshot = recorded("pod-unschedulable")
    last = play("Pod", lambda now: snapshot if now < 3 else None)[-1][1]
    assert (last.verdict.phase, last.is_last) == (Phase.ABSENT, True)
    assert "somebody has deleted it" in last.verdict.summary


def test_another_workload_of_the_same_name_ends_it_and_names_its_author() -> None:
    snapshot = recorded("pod-unschedulable")
    other = deepcopy(snapshot)
    other.workload["metadata"]["uid"] = "another"
    other.workload["metadata"]["annotations"] = {"mlpack/deployed-by": "bob@laptop"}
    last = play("Pod", lambda now: snapshot if now < 3 else other)[-1][1]
    assert last.is_last
    assert "bob@laptop has deleted it and deployed it anew" in last.verdict.summary


def test_another_deploy_over_it_ends_it() -> None:
    snapshot = recorded("pod-unschedulable")
    snapshot.workload["metadata"]["annotations"] = {"mlpack/rendered": "sha256:theirs"}
    last = play("Pod", lambda _now: snapshot, rendered="sha256:ours")[-1][1]
    assert last.verdict.summary == "somebody has deployed something else over it"


def test_a_success_that_lost_a_worker_on_the_way_is_none() -> None:
    running, done = recorded("mpijob-unschedulable"), recorded("mpijob-succeeded")
    done.workload["metadata"]["uid"] = running.workload["metadata"]["uid"]
    taken = deepcopy(running)
    taken.pods[2]["metadata"]["deletionTimestamp"] = "2026-11-21T00:20:00Z"
    last = play("MPIJob", lambda now: running if now < 2 else taken if now < 4 else done)[-1][1]
    assert last.verdict.phase is Phase.FAILED
    assert [finding.subject for finding in last.verdict.findings] == ["pod/fault-cpu-multi-node-worker-1"]


def test_workers_that_go_after_the_launcher_has_ended_are_no_loss() -> None:
    running, done = recorded("mpijob-unschedulable"), recorded("mpijob-succeeded")
    done.workload["metadata"]["uid"] = running.workload["metadata"]["uid"]
    tidied = deepcopy(running)
    tidied.pods[0]["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0}}
    tidied.pods[2]["metadata"]["deletionTimestamp"] = "2026-11-21T00:20:00Z"
    last = play("MPIJob", lambda now: running if now < 2 else tidied if now < 4 else done)[-1][1]
    assert last.verdict.phase is Phase.SUCCEEDED
