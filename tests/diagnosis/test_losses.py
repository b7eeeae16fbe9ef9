"""The causes that stopped pods before their end: recordings of a real cluster, and changed ones."""

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
    """Return a recording without events; its only pod has these fields in its metadata."""
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
def test_pod_that_exits_with_0_when_stopped_has_failed(case: str, reason: str, message: str) -> None:
    for has_events in [True, False]:
        diagnosis = verdict(recorded(case) if has_events else changed(case))
        assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, message)
        assert [(finding.reason, finding.subject, finding.message, finding.hint) for finding in diagnosis.findings] == [
            (reason, "pod/fault-single-node", message, AGAIN)
        ]


@pytest.mark.parametrize(
    ("reason", "condition_message", "message"),
    [
        ("PreemptionByScheduler", "x", "a pod of higher priority preempted it, which stopped it"),
        ("DeletionByPodGC", "x", "its node no longer exists, which stopped it"),
        ("TerminationByKubelet", "The node was low on memory.", "its node stopped it: The node was low on memory."),
        ("NewInSomeVersion", "for a reason", "it was stopped: for a reason"),
        ("NewInSomeVersion", "", "it was stopped: NewInSomeVersion"),
    ],
)
def test_cause_of_a_disruption_is_reported(reason: str, condition_message: str, message: str) -> None:
    snapshot = changed("pod-evicted")
    snapshot.workload["status"]["conditions"][0] |= {"reason": reason, "message": condition_message}
    assert verdict(snapshot).summary == message


def test_namespace_being_deleted_is_reported() -> None:
    snapshot = changed("pod-deleted")
    namespace = item("Namespace", "team", metadata={"deletionTimestamp": "2026-11-22T16:06:18Z"})
    diagnosis = verdict(type(snapshot)(snapshot.workload, pods=snapshot.pods, namespace=namespace))
    assert diagnosis.summary == "its namespace team is being deleted, which stopped it"


@pytest.mark.parametrize(
    ("deleted", "grace", "phase"),
    [
        ("2026-11-22T16:06:48Z", 30, Phase.FAILED),  # told to stop at 18, ended at 18
        ("2026-11-22T16:06:49Z", 30, Phase.SUCCEEDED),  # told to stop at 19
        ("2026-11-22T17:06:17Z", 3600, Phase.FAILED),
        ("2026-11-22T16:06:19Z", 0, Phase.FAILED),  # as the kubelet confirms an end
        ("2026-11-22T16:06:24Z", 0, Phase.SUCCEEDED),
    ],
)
def test_pod_that_ended_before_its_deletion_has_succeeded(deleted: str, grace: int, phase: Phase) -> None:
    snapshot = changed("pod-deleted", deletionTimestamp=deleted, deletionGracePeriodSeconds=grace)
    assert verdict(snapshot).phase is phase


def test_pod_without_killing_event_was_not_stopped() -> None:
    snapshot = recorded("pod-deleted")
    snapshot.workload["metadata"] |= {"deletionTimestamp": "2026-11-22T16:06:19Z", "deletionGracePeriodSeconds": 0}
    events = tuple(event for event in snapshot.events if event["reason"] != "Killing")
    pod = snapshot.workload
    assert verdict(type(snapshot)(pod, pods=(pod,), events=events)).phase is Phase.SUCCEEDED
    assert verdict(type(snapshot)(pod, pods=(pod,), events=snapshot.events)).phase is Phase.FAILED


def test_killing_event_counts_more_than_clocks() -> None:
    snapshot = recorded("pod-deleted")
    snapshot.workload["metadata"] |= {"deletionTimestamp": "2026-11-22T17:00:00Z"}
    diagnosis = verdict(type(snapshot)(snapshot.workload, pods=(snapshot.workload,), events=snapshot.events))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, DELETED)


def test_failure_before_the_deletion_is_reported_as_failure() -> None:
    snapshot = changed("pod-exit", deletionTimestamp="2026-11-21T01:00:00Z", deletionGracePeriodSeconds=30)
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, "the pod has failed")
    assert diagnosis.findings[0].message == "container main ended with exit code 3"


LIMITS = (
    "raise limits.ephemeral-storage (or the sizeLimit of that volume) in the overlay, or keep large files on another "
    "storage: mlpack configure --storage"
)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("The node was low on resource: ephemeral-storage. ", "request more of this resource in the overlay"),
        ('Container main exceeded its local ephemeral storage limit "5Mi". ', LIMITS),
        ('Usage of EmptyDir volume "output" exceeds the limit "5Mi". ', LIMITS),
    ],
)
def test_evicted_pod_reports_the_exceeded_limit(message: str, hint: str) -> None:
    """The messages are those of a kubelet 1.35, which end with a space."""
    snapshot = changed("pod-exit")
    snapshot.workload["status"] |= {"reason": "Evicted", "message": message}
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, f"evicted: {message.strip()}")
    assert diagnosis.findings[0].hint == hint


def test_pod_being_stopped_reports_the_cause() -> None:
    snapshot = changed("pod-evicted", deletionTimestamp="2026-11-22T16:07:02Z", deletionGracePeriodSeconds=30)
    snapshot.workload["status"] |= {"phase": "Running"}
    snapshot.workload["status"]["containerStatuses"][0]["state"] = {"running": {}}
    diagnosis = verdict(snapshot)
    assert (diagnosis.phase, diagnosis.summary) == (Phase.PENDING, "is being deleted")
    assert [(finding.message, finding.blocks) for finding in diagnosis.findings] == [(EVICTED, False)]


def test_deleted_launcher_is_the_cause_after_it_has_disappeared() -> None:
    diagnosis = verdict(recorded("mpijob-launcher-deleted"))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, f"{LAUNCHER}-lbts6: {DELETED}")
    assert [finding.subject for finding in diagnosis.findings] == [f"{LAUNCHER}-lbts6"]


def test_launcher_being_deleted_shows_its_last_lines() -> None:
    diagnosis = verdict(recorded("mpijob-unnoticed", age=3600))
    assert diagnosis.summary == f"{LAUNCHER}-lbts6: {DELETED}"
    assert diagnosis.findings[0].log == ("starting 2 ranks on 2 workers", "rank 0: sleeps", "rank 1: sleeps")


def test_deleted_launcher_that_reports_success_has_failed() -> None:
    snapshot = recorded("mpijob-launcher-deleted")
    snapshot.workload["status"]["conditions"][-1] |= {"type": "Succeeded", "reason": "MPIJobSucceeded"}
    assert verdict(snapshot).phase is Phase.FAILED


def test_first_deleted_worker_is_the_cause() -> None:
    diagnosis = verdict(recorded("mpijob-worker-deleted"))
    assert diagnosis.phase is Phase.FAILED
    assert diagnosis.summary == f"pod/fault-multi-node-worker-1: {DELETED} while the job was running"
    assert [finding.subject for finding in diagnosis.findings] == ["pod/fault-multi-node-worker-1", f"{LAUNCHER}-6nt68"]


def test_worker_deleted_before_the_last_attempt_is_not_lost() -> None:
    snapshot = recorded("mpijob-worker-deleted")
    launcher = snapshot.pods[0]
    launcher["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = "2026-11-22T16:09:22Z"
    assert verdict(snapshot).summary == "the launcher has failed"


def test_workers_deleted_by_the_operator_after_the_end_are_not_lost() -> None:
    snapshot = recorded("mpijob-succeeded")
    going = deepcopy(recorded("mpijob-unschedulable").pods[1])
    going["metadata"] |= {"deletionTimestamp": "2026-11-21T00:17:05Z", "deletionGracePeriodSeconds": 30}
    diagnosis = verdict(
        type(snapshot)(snapshot.workload, snapshot.children, (*snapshot.pods, going), snapshot.events, 5)
    )
    assert (diagnosis.phase, diagnosis.findings) == (Phase.SUCCEEDED, ())


def test_deadline_that_deletes_the_launcher_is_the_cause() -> None:
    snapshot = recorded("mpijob-launcher-deleted")
    snapshot.workload["status"]["conditions"][-1] |= {"reason": "DeadlineExceeded", "message": "active too long"}
    assert verdict(snapshot).summary == "it took longer than its activeDeadlineSeconds"


def test_events_about_an_earlier_job_are_ignored() -> None:
    snapshot = recorded("mpijob-launcher-deleted")
    snapshot.workload["metadata"]["creationTimestamp"] = "2026-11-22T16:09:30Z"
    assert verdict(snapshot).summary == "the launcher has failed"


def test_successful_workload_reports_child_killed_for_memory() -> None:
    diagnosis = verdict(recorded("pod-child-memory"))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.SUCCEEDED, "the pod has succeeded")
    (finding,) = diagnosis.findings
    limit = "a process in container main was killed for using more memory than the limit of 64Mi"
    assert (finding.message, finding.blocks) == (f"{limit}, and the container still ended with exit code 0", False)
    hint = "check that the result is complete; raise the memory limit in mlops.env, or reduce the memory use"
    assert finding.hint == hint


@pytest.mark.parametrize(
    ("retries", "hint"), [(0, AGAIN), (2, "wait: mpijob/fault-multi-node replaces the pod by itself")]
)
def test_lost_worker_has_hint_to_wait_while_the_launcher_may_be_retried(retries: int, hint: str) -> None:
    snapshot = recorded("mpijob-worker-deleted")
    snapshot.workload["status"]["conditions"] = []
    snapshot.workload["spec"]["runPolicy"]["backoffLimit"] = retries
    (job,) = snapshot.children
    job["status"] = {"active": 1}
    launcher = snapshot.pods[0]
    state = launcher["status"]["containerStatuses"][0]["state"]
    launcher["status"] |= {"phase": "Running"}
    state["running"] = {"startedAt": state.pop("terminated")["startedAt"]}
    del snapshot.workload["status"]["completionTime"]
    diagnosis = verdict(snapshot)
    assert diagnosis.phase is Phase.RUNNING
    assert [finding.hint for finding in diagnosis.findings if finding.reason == "WorkerLost"] == [hint]


def test_recorded_eviction_of_a_job_has_hint_to_wait() -> None:
    """The Job counts the pod as failed before it has stopped, and creates another one when it has."""
    diagnosis = verdict(recorded("job-evicted", age=40))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.RUNNING, "pods: 1 terminating")
    wait = "wait: job/fault-evicted replaces the pod by itself"
    assert [(finding.reason, finding.message, finding.hint) for finding in diagnosis.findings] == [
        ("EvictionByEvictionAPI", EVICTED, wait)
    ]
