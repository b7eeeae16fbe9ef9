"""Tests of the wait for a workload: its verdicts, its end, and outages. Time and the cluster are simulated."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest

from packager.base.errors import ClusterError, UnreachableError
from packager.cluster import workload_watch
from packager.cluster.workload_watch import MAX_SILENCE, Update, poll
from packager.diagnosis.diagnose import NOTICE
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Phase
from packager.workloads.kinds import kinds
from tests.diagnosis.test_diagnose import recorded


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


def play(
    kind: str,
    show: Callable[[float], Snapshot | None],
    *,
    rendered: str | None = None,
    until: float = 2000,
    patience: float = NOTICE,
) -> list[tuple[float, Update]]:
    """Follow the snapshots that `show` returns for each second, to the end or for `until` seconds."""
    time = Time()

    def read(*, events: bool) -> Snapshot | None:
        assert isinstance(events, bool)
        return show(time.now)

    seen = []
    for update in poll(read, kinds()[kind], rendered=rendered, clock=time, sleep=time.sleep, patience=patience):
        seen.append((time.now, update))
        if time.now > until:
            break
    return seen


@pytest.fixture(autouse=True)
def _every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_watch, "INTERVAL", 1.0)


def test_follow_ends_with_the_workload() -> None:
    running, done = recorded("mpijob-unschedulable"), recorded("mpijob-succeeded")
    done.workload["metadata"]["uid"] = running.workload["metadata"]["uid"]
    seen = play("MPIJob", lambda now: running if now < 5 else done)
    assert [update.verdict.phase for _, update in seen] == [Phase.STUCK] * 5 + [Phase.SUCCEEDED]
    assert seen[-1][1].is_last


@pytest.mark.parametrize(("takes", "every"), [(0.0, 1.0), (0.7, 2.8), (20.0, 24.0)])
def test_follow_polls_less_often_if_polls_are_slow(takes: float, every: float) -> None:
    time, looks = Time(), list[float]()

    def read(*, events: bool) -> Snapshot:
        assert isinstance(events, bool)
        looks.append(time.now)
        time.now += takes
        return recorded("mpijob-succeeded" if len(looks) == 4 else "mpijob-quota")

    updates = list(poll(read, kinds()["MPIJob"], clock=time, sleep=time.sleep))
    assert len(updates) == 4
    assert looks == pytest.approx([0, every, 2 * every, 3 * every])


@pytest.mark.parametrize(
    ("case", "kind", "ends"),
    [
        ("mpijob-rejected", "MPIJob", 0),
        ("pod-image", "Pod", 15),
        ("deployment-image-removed", "Deployment", 15),
        ("deployment-back-off", "Deployment", 30),
    ],
)
def test_permanent_problems_end_the_wait(case: str, kind: str, ends: float) -> None:
    time, last = play(kind, lambda _now: recorded(case))[-1]
    assert last.is_last
    assert last.verdict.phase is Phase.STUCK
    assert time == pytest.approx(ends, abs=1.1)


def test_temporary_problems_do_not_end_the_wait() -> None:
    assert not play("MPIJob", lambda _now: recorded("mpijob-quota"), until=1000)[-1][1].is_last


def test_follow_reports_and_survives_a_lost_connection() -> None:
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


def test_follow_raises_a_refusal_of_its_first_poll() -> None:
    def show(_now: float) -> Snapshot:
        raise ClusterError("forbidden")

    with pytest.raises(ClusterError, match="forbidden"):
        play("Pod", show)


def test_follow_waits_for_a_silent_cluster_right_after_a_deploy() -> None:
    def show(now: float) -> Snapshot:
        if now < 5:
            raise UnreachableError("connection refused")
        return recorded("pod-succeeded")

    seen = [update for _, update in play("Pod", show, rendered="sha256:ours")]
    assert [(update.verdict.phase, update.silence > 0) for update in seen] == [
        *[(Phase.PENDING, True)] * 5,
        (Phase.SUCCEEDED, False),
    ]
    with pytest.raises(UnreachableError):
        play("Pod", show)


def test_follow_gives_up_on_a_cluster_that_stays_silent() -> None:
    snapshot = recorded("pod-unschedulable")

    def show(now: float) -> Snapshot:
        if now >= 2:
            raise UnreachableError("connection refused")
        return snapshot

    with pytest.raises(UnreachableError, match=r"^the cluster has not answered for 301 s: connection refused$"):
        play("Pod", show, until=MAX_SILENCE * 2)


def test_follow_reports_lasting_refusals_as_refusals() -> None:
    snapshot = recorded("pod-unschedulable")

    def show(now: float) -> Snapshot:
        if now >= 2:
            raise ClusterError('pods "x" is forbidden', hint="ask for rights")
        return snapshot

    with pytest.raises(ClusterError) as refused:
        play("Pod", show, until=MAX_SILENCE * 2)
    assert type(refused.value) is ClusterError
    assert str(refused.value) == 'the cluster has refused for 301 s to report its state: pods "x" is forbidden'
    assert refused.value.hint == "ask for rights"


@pytest.mark.parametrize("takes", [0.0, 2.0])
def test_follow_neither_polls_nor_sleeps_after_the_deadline(takes: float) -> None:
    time, looks = Time(), list[float]()

    def read(*, events: bool) -> Snapshot:
        assert isinstance(events, bool)
        looks.append(time.now)
        time.now += takes
        return recorded("pod-unschedulable")

    assert len(list(poll(read, kinds()["Pod"], deadline=5, clock=time, sleep=time.sleep))) == len(looks)
    assert looks[-1] < 5
    assert time.now == 5


def test_follow_ends_when_the_workload_is_deleted() -> None:
    snapshot = recorded("pod-unschedulable")
    last = play("Pod", lambda now: snapshot if now < 3 else None)[-1][1]
    assert (last.verdict.phase, last.is_last) == (Phase.ABSENT, True)
    assert "it was deleted" in last.verdict.summary


def test_follow_ends_at_a_replaced_workload_and_names_its_author() -> None:
    snapshot = recorded("pod-unschedulable")
    other = deepcopy(snapshot)
    other.workload["metadata"]["uid"] = "another"
    other.workload["metadata"]["annotations"] = {"mlpack/deployed-by": "bob@laptop"}
    last = play("Pod", lambda now: snapshot if now < 3 else other)[-1][1]
    assert last.is_last
    assert "bob@laptop deleted it and deployed it again" in last.verdict.summary


def test_follow_ends_at_a_deploy_by_another_user() -> None:
    snapshot = recorded("pod-unschedulable")
    snapshot.workload["metadata"]["annotations"] = {"mlpack/rendered": "sha256:theirs"}
    last = play("Pod", lambda _now: snapshot, rendered="sha256:ours")[-1][1]
    assert last.verdict.summary == "another user deployed something else over it"


def stages(case: str) -> tuple[Snapshot, Snapshot, Snapshot]:
    """Return three snapshots of a pod that was stopped: running, terminating, and the recorded end."""
    end = recorded(case)
    going = deepcopy(end)
    going.workload["status"] |= {"phase": "Running"}
    going.workload["status"]["containerStatuses"][0]["state"] = {"running": {}}
    going.workload["metadata"] |= {"deletionTimestamp": "2026-11-22T16:07:02Z", "deletionGracePeriodSeconds": 30}
    running = deepcopy(going)
    del running.workload["metadata"]["deletionTimestamp"]
    running.workload["status"]["conditions"] = []
    return tuple(replace(snapshot, pods=(snapshot.workload,), events=()) for snapshot in (running, going, end))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("pod-deleted", "it was deleted, which stopped it"),
        ("pod-evicted", "it was evicted (a drain of its node, or a request to evict it), which stopped it"),
    ],
)
def test_stopped_pod_has_failed_even_if_its_end_is_not_observed(case: str, message: str) -> None:
    for looks in (stages(case), stages(case)[:2]):
        last = play("Pod", lambda now, looks=looks: looks[int(now)] if now < len(looks) else None)[-1][1]  # type: ignore[misc]
        assert (last.verdict.phase, last.verdict.summary) == (Phase.FAILED, message)


def test_launcher_that_vanishes_between_two_polls_is_named_as_cause_of_failure() -> None:
    running, failed = recorded("mpijob-unnoticed"), recorded("mpijob-launcher-deleted")
    launcher = running.pods[2]
    launcher["status"] |= {"phase": "Running"}
    launcher["status"]["containerStatuses"][0]["state"] = {"running": {}}
    del launcher["metadata"]["deletionTimestamp"]
    running = replace(running, children=(), events=())
    gone = "it no longer exists, and how it ended is unknown: it was deleted"
    for end, message in [(replace(failed, events=()), gone), (failed, "it was deleted, which stopped it")]:
        last = play("MPIJob", lambda now, end=end: running if now < 3 else end)[-1][1]  # type: ignore[misc]
        assert (last.verdict.phase, last.verdict.summary) == (
            Phase.FAILED,
            f"pod/fault-multi-node-launcher-lbts6: {message}",
        )


def test_worker_missing_from_the_next_poll_is_lost() -> None:
    running, done = recorded("mpijob-unschedulable"), recorded("mpijob-succeeded")
    done.workload["metadata"]["uid"] = running.workload["metadata"]["uid"]
    less = replace(running, pods=running.pods[:2])
    last = play("MPIJob", lambda now: running if now < 2 else less if now < 4 else done)[-1][1]
    assert last.verdict.phase is Phase.FAILED
    assert [str(finding) for finding in last.verdict.findings] == [
        "pod/fault-cpu-multi-node-worker-1: it was deleted while the job was running"
    ]


@pytest.mark.parametrize("patience", [5, 600])
def test_end_missed_by_the_operator_becomes_the_verdict_after_patience(patience: float) -> None:
    unseen = recorded("mpijob-unnoticed")
    for child in unseen.children:
        child["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    launcher = unseen.pods[2]
    launcher["metadata"].pop("deletionTimestamp")
    launcher["status"] |= {"phase": "Succeeded"}
    seen = play("MPIJob", lambda _now: replace(unseen, events=()), patience=patience)
    time, last = seen[-1]
    assert time == pytest.approx(patience, abs=1.1)
    assert (last.verdict.phase, last.verdict.summary) == (Phase.SUCCEEDED, "the launcher has succeeded")
    assert [str(finding) for finding in last.verdict.findings] == [
        "mpijob/fault-multi-node: the launcher has ended (Complete), but mpi-operator has not updated the job yet"
    ]


def test_pod_that_stays_after_its_deletion_is_stuck_and_ends_the_wait() -> None:
    _, going, _ = stages("pod-deleted")
    seen = play("Pod", lambda _now: replace(going, age=0), until=120)
    stuck = [time for time, update in seen if update.verdict.phase is Phase.STUCK]
    assert stuck[0] == pytest.approx(90, abs=1.1)
    assert seen[-1][1].verdict.summary == (
        "it was deleted but is still there: the kubelet of its node has not confirmed that it has ended"
    )
