"""What stopped a pod before it had ended, and that it did: recordings of a real cluster, and what is made of them."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from packager.kubernetes.verdict import Phase
from tests.diagnosis.test_diagnose import recorded, verdict
from tests.fake_cluster import item

if TYPE_CHECKING:
    from packager.kubernetes.snapshot import Snapshot

EVICTED = "it was evicted (a drain of its node, or a request to evict it), which stopped it"
DELETED = "it was deleted, which stopped it"
LAUNCHER = "pod/fault-multi-node-launcher"
AGAIN = "deploy it again with --replace"


def changed(case: str, **fields: Any) -> Snapshot:
    """Return a recording without events, whose one pod has these fields in its metadata."""
    snapshot = recorded(case)
    pod = deepcopy(snapshot.workload)
    pod["metadata"] |= fields
    return type(snapshot)(pod, pods=(pod,), age=5)


@pytest.mark.parametrize(
    ("case", "reason", "message"),
    [
        ("pod-deleted", "Deleted", DELETED),
        ("pod-evicted", "EvictionByEvictionAPI", EVICTED),
    ],
)
@pytest.mark.parametrize("has_events", [True, False])
def test_a_pod_that_ends_well_when_it_is_stopped_has_not_succeeded(
    case: str,
    reason: str,
    message: str,
    has_events: bool,  # noqa: FBT001 - a case
) -> None:
    diagnosis = verdict(recorded(case) if has_events else changed(case))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, message)
    assert [(finding.reason, finding.subject, finding.message, finding.hint) for finding in diagnosis.findings] == [
        (reason, "pod/fault-single-node", message, AGAIN)
    ]


@pytest.mark.parametrize(
    ("reason", "condition_message", "message"),
    [
        ("PreemptionByScheduler", "x", "a pod of higher priority preempted it, which stopped it"),
        (
            "DeletionByTaintManager",
            "x",
            "its node does not answer, or has a taint that it does not tolerate, which stopped it",
        ),
        ("DeletionByPodGC", "x", "its node no longer exists, which stopped it"),
        ("TerminationByKubelet", "The node was low on memory.", "its node stopped it: The node was low on memory."),
        ("NewInSomeVersion", "for a reason", "it was stopped: for a reason"),
        ("NewInSomeVersion", "", "it was stopped: NewInSomeVersion"),
    ],
)
def test_what_stopped_a_pod_is_named(reason: str, condition_message: str, message: str) -> None:
    snapshot = changed("pod-evicted")
    snapshot.workload["status"]["conditions"][0] |= {"reason": reason, "message": condition_message}
    assert verdict(snapshot).summary == message


def test_a_namespace_being_deleted_is_named() -> None:
    snapshot = changed("pod-deleted")
    namespace = item("Namespace", "team", metadata={"deletionTimestamp": "2026-11-22T16:06:18Z"})
    diagnosis = verdict(type(snapshot)(snapshot.workload, pods=snapshot.pods, namespace=namespace))
    assert diagnosis.summary == "its namespace team is being deleted, which stopped it"


@pytest.mark.parametrize(
    ("deleted", "grace", "phase"),
    [
        ("2026-11-22T16:06:48Z", 30, Phase.FAILED),  # told at 18, ended at 18
        ("2026-11-22T16:06:49Z", 30, Phase.SUCCEEDED),  # told at 19
        ("2026-11-22T17:06:17Z", 3600, Phase.FAILED),
        ("2026-11-22T16:06:19Z", 0, Phase.FAILED),  # as the kubelet confirms an end
        ("2026-11-22T16:06:24Z", 0, Phase.SUCCEEDED),
    ],
)
def test_a_pod_that_had_ended_before_it_was_deleted_has_succeeded(deleted: str, grace: int, phase: Phase) -> None:
    snapshot = changed("pod-deleted", deletionTimestamp=deleted, deletionGracePeriodSeconds=grace)
    assert verdict(snapshot).phase is phase


def test_a_kubelet_that_tells_of_no_kill_has_stopped_nothing() -> None:
    snapshot = recorded("pod-deleted")
    snapshot.workload["metadata"] |= {"deletionTimestamp": "2026-11-22T16:06:19Z", "deletionGracePeriodSeconds": 0}
    told = tuple(event for event in snapshot.events if event["reason"] != "Killing")
    pod = snapshot.workload
    assert verdict(type(snapshot)(pod, pods=(pod,), events=told)).phase is Phase.SUCCEEDED
    assert verdict(type(snapshot)(pod, pods=(pod,), events=snapshot.events)).phase is Phase.FAILED


def test_a_kubelet_that_stopped_the_container_is_believed_more_than_clocks() -> None:
    snapshot = recorded("pod-deleted")
    snapshot.workload["metadata"] |= {"deletionTimestamp": "2026-11-22T17:00:00Z"}
    diagnosis = verdict(type(snapshot)(snapshot.workload, pods=(snapshot.workload,), events=snapshot.events))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, DELETED)


def test_a_failure_before_the_deletion_is_told_as_that() -> None:
    snapshot = changed("pod-exit", deletionTimestamp="2026-11-21T01:00:00Z", deletionGracePeriodSeconds=30)
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, "the pod has failed")
    assert diagnosis.findings[0].message == "container main ended with exit code 3"


def test_a_pod_that_its_node_evicts_says_what_was_short() -> None:
    snapshot = changed("pod-exit")
    why = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
    snapshot.workload["status"] |= {"reason": "Evicted", "message": why}
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, f"evicted: {why}")
    assert diagnosis.findings[0].hint == "request more of this resource in the overlay"


def test_a_pod_that_is_being_stopped_says_by_what() -> None:
    snapshot = changed("pod-evicted", deletionTimestamp="2026-11-22T16:07:02Z", deletionGracePeriodSeconds=30)
    snapshot.workload["status"] |= {"phase": "Running"}
    snapshot.workload["status"]["containerStatuses"][0]["state"] = {"running": {}}
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.PENDING, "is being deleted")
    assert [(finding.message, finding.blocks) for finding in diagnosis.findings] == [(EVICTED, False)]


def test_a_launcher_that_was_deleted_is_the_reason_also_when_it_is_gone() -> None:
    diagnosis = verdict(recorded("mpijob-launcher-deleted"))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, f"{LAUNCHER}-lbts6: {DELETED}")
    assert [finding.subject for finding in diagnosis.findings] == [f"{LAUNCHER}-lbts6"]


def test_a_launcher_being_deleted_shows_its_last_lines() -> None:
    diagnosis = verdict(recorded("mpijob-unnoticed", age=3600))
    assert diagnosis.summary == f"{LAUNCHER}-lbts6: {DELETED}"
    assert diagnosis.findings[0].log == ("starting 2 ranks on 2 workers", "rank 0: sleeps", "rank 1: sleeps")


def test_a_deleted_launcher_that_reports_success_has_failed() -> None:
    snapshot = recorded("mpijob-launcher-deleted")
    snapshot.workload["status"]["conditions"][-1] |= {"type": "Succeeded", "reason": "MPIJobSucceeded"}
    assert verdict(snapshot).phase is Phase.FAILED


def test_a_worker_that_was_deleted_is_the_reason_and_those_that_went_afterwards_are_not() -> None:
    diagnosis = verdict(recorded("mpijob-worker-deleted"))
    assert diagnosis.phase is Phase.FAILED
    assert diagnosis.summary == f"pod/fault-multi-node-worker-1: {DELETED} while the job was running"
    assert [finding.subject for finding in diagnosis.findings] == ["pod/fault-multi-node-worker-1", f"{LAUNCHER}-6nt68"]


def test_a_worker_that_went_before_the_last_attempt_is_no_loss() -> None:
    snapshot = recorded("mpijob-worker-deleted")
    launcher = snapshot.pods[0]
    launcher["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = "2026-11-22T16:09:22Z"
    assert verdict(snapshot).summary == "the launcher has failed"


def test_workers_that_the_operator_takes_away_after_the_end_are_no_loss() -> None:
    snapshot = recorded("mpijob-succeeded")
    going = deepcopy(recorded("mpijob-unschedulable").pods[1])
    going["metadata"] |= {"deletionTimestamp": "2026-11-21T00:17:05Z", "deletionGracePeriodSeconds": 30}
    diagnosis = verdict(
        type(snapshot)(snapshot.workload, snapshot.children, (*snapshot.pods, going), snapshot.events, 5)
    )
    assert (diagnosis.phase, diagnosis.findings) == (Phase.SUCCEEDED, ())


def test_a_deadline_that_takes_the_launcher_away_is_told_as_that() -> None:
    snapshot = recorded("mpijob-launcher-deleted")
    snapshot.workload["status"]["conditions"][-1] |= {"reason": "DeadlineExceeded", "message": "active too long"}
    assert verdict(snapshot).summary == "it took longer than its activeDeadlineSeconds"


def test_a_launcher_that_its_job_takes_away_for_a_deadline_was_not_deleted_by_somebody() -> None:
    snapshot = recorded("mpijob-unnoticed", age=3600)
    for condition in snapshot.children[0]["status"]["conditions"]:
        condition |= {"reason": "DeadlineExceeded", "message": "active too long"}
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, "it took longer than its activeDeadlineSeconds")
    assert DELETED not in [finding.message for finding in diagnosis.findings]


def test_events_about_an_earlier_job_of_the_name_are_not_believed() -> None:
    snapshot = recorded("mpijob-launcher-deleted")
    snapshot.workload["metadata"]["creationTimestamp"] = "2026-11-22T16:09:30Z"
    assert verdict(snapshot).summary == "the launcher has failed"


def test_a_child_that_was_killed_for_its_memory_is_told_of_a_success() -> None:
    diagnosis = verdict(recorded("pod-child-memory"))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.SUCCEEDED, "the pod has succeeded")
    (finding,) = diagnosis.findings
    limit = "a process in container main was killed for using more memory than the limit of 64Mi"
    assert (finding.message, finding.blocks) == (f"{limit}, and the container still ended with exit code 0", False)
    hint = "check that the result is complete; raise limits.memory in the overlay's manifest, or reduce the memory use"
    assert finding.hint == hint
