"""What a pod's status, and the events about it, mean for a person: what no recording holds."""

from __future__ import annotations

from typing import Any

import pytest

from packager.cluster.diagnosis import diagnose
from packager.cluster.engines import ENGINES
from packager.cluster.pods import crashed, failure, obstacles, state
from packager.cluster.refusals import refusal
from packager.cluster.snapshot import Snapshot
from packager.cluster.verdict import NEVER, Finding, Phase
from tests.fake_cluster import item

GOING = {"deletionTimestamp": "2026-11-21T00:00:00Z"}


def pod(container: dict[str, Any] | None = None, *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    """Return a pod with one container, of which `container` is the status."""
    statuses = [{"name": "main", "image": "r.example/a:1", "state": {}, **container}] if container else []
    said = {"phase": phase, "containerStatuses": statuses, **status}
    return item("Pod", "p", spec={"containers": [{"name": "main"}]}, status=said)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    return pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}])


TAINTED = "0/2 nodes are available: 2 node(s) had untolerated taint {gpu: yes}. preemption: 0/2 nodes are available"
UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
DENIED = "pull access denied, repository does not exist or may require authorization"
LABELS = "kubectl get nodes --show-labels; kubectl describe nodes | grep Taints"
LOGIN = "the registry wants a login: give the namespace's service account an imagePullSecret"


@pytest.mark.parametrize(
    ("seen", "reason", "message", "hint", "final"),
    [
        (
            unscheduled("", reason="SchedulingGated"),
            "SchedulingGated",
            "held back by a scheduling gate (a queue's, perhaps)",
            None,
            NEVER,
        ),
        (
            unscheduled(TAINTED),
            "Unschedulable",
            "no node can take it: 0/2 nodes are available: 2 node(s) had untolerated taint {gpu: yes}",
            LABELS,
            NEVER,
        ),
        (
            unscheduled("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
            "Unschedulable",
            "no node can take it: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
            LABELS,
            NEVER,
        ),
        (
            unscheduled(UNBOUND),
            "Unschedulable",
            f"no node can take it: {UNBOUND.rstrip('.')}",
            "kubectl get persistentvolumeclaims",
            NEVER,
        ),
        (unscheduled(""), "Unschedulable", "no node can take it: the scheduler does not say why", None, NEVER),
        (
            pod(phase="Running", conditions=[{"type": "Ready", "status": "Unknown"}]),
            "NodeLost",
            "its node does not answer any more",
            "kubectl get nodes",
            NEVER,
        ),
        (
            pod(waiting("ErrImagePull", DENIED)),
            "ErrImagePull",
            f"the image r.example/a:1 cannot be pulled: {DENIED}",
            LOGIN,
            15,
        ),
        (
            pod(waiting("InvalidImageName")),
            "ErrImagePull",
            "the image r.example/a:1 cannot be pulled",
            "correct REGISTRY in mlops.env",
            0,
        ),
        (
            pod(waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")),
            "CreateContainerConfigError",
            "container main cannot be made: container has runAsNonRoot and image will run as root",
            "give a user other than 0 in the overlay's patch",
            10,
        ),
        (
            pod(waiting("RunContainerError")),
            "RunContainerError",
            "container main cannot be made: RunContainerError",
            None,
            10,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_keeps_a_pod_from_starting(
    seen: dict[str, Any], reason: str, message: str, hint: str | None, final: float
) -> None:
    assert list(obstacles(seen, [])) == [Finding(reason, "pod/p", message, hint, final_after=final)]


@pytest.mark.parametrize(
    ("seen", "reason", "message", "hint"),
    [
        (pod(phase="Failed"), "Failed", "failed, and its containers do not say why", None),
        (pod({"state": {"terminated": {"exitCode": 139}}}, phase="Failed"), "Error", "segmentation fault", None),
        (
            pod(phase="Failed", reason="NodeLost"),
            "NodeLost",
            "node lost",
            "the node is gone; deploy again",
        ),
    ],
)
def test_why_a_pod_has_failed(seen: dict[str, Any], reason: str, message: str, hint: str | None) -> None:
    found = failure(seen)
    assert found is not None
    assert (found.reason, found.hint) == (reason, hint)
    assert message in found.message


RESTARTED = {
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 127, "reason": "Error", "message": "run: not found\n"}},
    "restartCount": 3,
}


def test_a_container_that_was_started_again_says_how_it_ended_and_stops_nobody() -> None:
    found = crashed(pod(RESTARTED, phase="Running"))
    assert found is not None
    assert found.message == ("container main ended with exit code 127 (no such command); started again, 3 times so far")
    assert (found.reason, found.blocks, found.log) == ("Error", False, ("run: not found",))


def test_a_workload_tells_of_a_container_that_was_started_again_while_it_runs() -> None:
    seen = pod(RESTARTED, phase="Running")
    said = diagnose(ENGINES["Pod"], Snapshot(seen, pods=(seen,)))
    assert (said.phase, [finding.reason for finding in said.findings]) == (Phase.RUNNING, ["Error"])


def test_a_workload_that_is_going_is_not_called_stuck() -> None:
    seen = unscheduled("0/1 nodes are available")
    seen["metadata"] |= GOING
    said = diagnose(ENGINES["Pod"], Snapshot(seen, pods=(seen,)))
    assert (said.phase, said.summary, state(seen)) == (Phase.PENDING, "is being deleted", "Terminating")


def test_a_pod_that_was_deleted_while_it_ran_has_been_stopped() -> None:
    seen = pod(phase="Failed")
    seen["metadata"] |= GOING
    said = diagnose(ENGINES["Pod"], Snapshot(seen, pods=(seen,)))
    assert (said.phase, said.summary) == (Phase.FAILED, "somebody has deleted it, which stopped it")


def job(*, run_policy: dict[str, Any] | None = None, **condition: str) -> dict[str, Any]:
    conditions = [{"status": "True", **condition}] if condition else [{"type": "Created", "status": "True"}]
    template = {"spec": {"containers": [{"name": "worker"}]}}
    spec = {"runPolicy": run_policy or {}, "mpiReplicaSpecs": {"Worker": {"replicas": 0, "template": template}}}
    return item("MPIJob", "j", spec=spec, status={"conditions": conditions})


@pytest.mark.parametrize(
    ("condition", "summary"),
    [
        ({"reason": "DeadlineExceeded", "message": "x"}, "it took longer than its activeDeadlineSeconds"),
        ({"reason": "BackoffLimitExceeded"}, "the launcher has failed in each of 3 attempts"),
        ({"message": "the launcher was refused: "}, "the launcher was refused"),
        ({}, "the job has failed"),
    ],
    ids=str,
)
def test_how_a_job_has_failed(condition: dict[str, str], summary: str) -> None:
    seen = job(run_policy={"backoffLimit": 2}, type="Failed", **condition)
    said = diagnose(ENGINES["MPIJob"], Snapshot(seen))
    assert (said.phase, said.summary) == (Phase.FAILED, summary)


def test_a_suspended_job_waits_for_a_person_or_a_queue() -> None:
    said = diagnose(ENGINES["MPIJob"], Snapshot(job(run_policy={"suspend": True})))
    assert (said.phase, said.summary) == (Phase.STUCK, "suspended: a queue, or a person, holds it back")
    assert said.findings[0].final_after == NEVER


def test_a_launcher_that_may_not_be_made_is_told_by_the_word_on_its_job() -> None:
    child = item("Job", "j-launcher", status={})
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"uid": child["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "Error creating: admission webhook denied the request: no launchers here",
    }
    said = diagnose(ENGINES["MPIJob"], Snapshot(job(), children=(child,), events=(event,)))
    assert (said.phase, said.findings[0].subject) == (Phase.STUCK, "job/j-launcher")
    assert said.summary == "admission webhook denied the request: no launchers here"


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_an_end_that_the_operator_does_not_see_is_told_and_stops_nobody(end: str) -> None:
    child = item("Job", "j-launcher", status={"active": 1, "conditions": [{"type": end, "status": "True"}]})
    said = diagnose(ENGINES["MPIJob"], Snapshot(job(), children=(child,)))
    (found,) = said.findings
    assert said.phase is Phase.PENDING
    assert found.message == f"the launcher has ended ({end}), and the operator has not taken notice yet"
    assert found.hint == "is mpi-operator running? kubectl get pods --all-namespaces | grep mpi-operator"
    assert not found.blocks


@pytest.mark.parametrize(
    ("said", "reason", "message", "hint", "final"),
    [
        (
            'Error creating: pods "x" is forbidden: failed quota: strict: must specify limits.memory for: main',
            "QuotaExceeded",
            'pods "x" is forbidden: failed quota: strict: must specify limits.memory for: main',
            "give each container what the quota counts",
            0,
        ),
        (
            'Error creating: admission webhook "policy.example" denied the request: no',
            "Forbidden",
            'admission webhook "policy.example" denied the request: no',
            None,
            15,
        ),
    ],
)
def test_what_the_server_refuses(said: str, reason: str, message: str, hint: str | None, final: float) -> None:
    assert refusal("job/x", said) == Finding(reason, "job/x", message, hint, final_after=final)
