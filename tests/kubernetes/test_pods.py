"""The meaning of a pod's status and events for a user, in cases that no recording contains."""

from __future__ import annotations

from typing import Any

import pytest

from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.obstacles import obstacles
from packager.kubernetes.pods import crashed, failure, state
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import NEVER, Finding, Phase
from packager.workloads.kinds import kinds
from tests.fake_cluster import item

MADE = {"creationTimestamp": "2026-11-21T00:00:00Z"}
GOING = {"deletionTimestamp": "2026-11-21T00:00:00Z"}


def pod(container: dict[str, Any] | None = None, *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    """Return a pod with one container that has this status."""
    statuses = [{"name": "main", "image": "r.example/a:1", "state": {}, **container}] if container else []
    pod_status = {"phase": phase, "containerStatuses": statuses, **status}
    return item("Pod", "p", metadata=MADE, spec={"containers": [{"name": "main"}]}, status=pod_status)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    return pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}])


TAINTED = "0/2 nodes are available: 2 node(s) had untolerated taint {gpu: yes}. preemption: 0/2 nodes are available"
DENIED = "pull access denied, repository does not exist or may require authorization"
NEVER_PULLED = "Container image r.example/a:1 is not present with pull policy of Never"
LABELS = "kubectl get nodes --show-labels; kubectl describe nodes | grep Taints"
LOGIN = "the registry requires a login: add an imagePullSecret to the namespace's service account"


PULL = "the image r.example/a:1 cannot be pulled"
ROOT = "container has runAsNonRoot and image will run as root"
CREATED = "container main cannot be created: {}"
OVERLAY = "load it on the node, or allow pulling: imagePullPolicy in the overlay"


@pytest.mark.parametrize(
    ("seen", "reason", "message", "hint", "final"),
    [
        (
            unscheduled("", reason="SchedulingGated"),
            "SchedulingGated",
            "held back by a scheduling gate (for example of a queue)",
            None,
            NEVER,
        ),
        (
            unscheduled(TAINTED),
            "Unschedulable",
            "no node can run it: of 2 nodes, 2 have the taint gpu=yes, which it does not tolerate",
            LABELS,
            NEVER,
        ),
        (unscheduled(""), "Unschedulable", "no node can run it: the scheduler gives no reason", None, NEVER),
        (pod(waiting("ErrImagePull", DENIED)), "ErrImagePull", f"{PULL}: {DENIED}", LOGIN, 15),
        (pod(waiting("InvalidImageName")), "ErrImagePull", PULL, "correct REGISTRY in mlops.env", 0),
        (pod(waiting("ErrImageNeverPull", NEVER_PULLED)), "ErrImagePull", f"{PULL}: {NEVER_PULLED}", OVERLAY, 15),
        (
            pod(waiting("CreateContainerConfigError", ROOT)),
            "CreateContainerConfigError",
            CREATED.format(ROOT),
            "set a user other than 0 in the overlay's patch",
            10,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_obstacles_explain_a_pod_that_does_not_start(
    seen: dict[str, Any], reason: str, message: str, hint: str | None, final: float
) -> None:
    (finding,) = obstacles(seen, [])
    assert finding == Finding(reason, "pod/p", message, finding.remedy, final_after=final)
    assert finding.hint == hint


TRIGGERED = "pod triggered scale-up: [{gpu-group 1->2 (max: 4)}]"
REFUSED = "pod didn't trigger scale-up: 2 max node group size reached"


def grown(reason: str, message: str, minutes: int) -> dict[str, Any]:
    """Return an event of an autoscaler about the pod, some minutes after the pod was made."""
    time = f"2026-11-21T00:{minutes:02}:00Z"
    return item(
        "Event", f"p.{minutes}", involvedObject={"uid": UID}, reason=reason, message=message, lastTimestamp=time
    )


UID = unscheduled("")["metadata"]["uid"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [grown("TriggeredScaleUp", TRIGGERED, 1)],
            Finding("ScalingUp", "pod/p", f"a node is on its way: {TRIGGERED}", blocks=False),
        ),
        (
            [grown("NotTriggerScaleUp", REFUSED, 2)],
            Finding("NoNodeFits", "pod/p", f"no node can run it, and the cluster adds none: {REFUSED}"),
        ),
        (
            [grown("NotTriggerScaleUp", REFUSED, 10)],
            Finding(
                "NoNodeFits",
                "pod/p",
                f"no node can run it, and the cluster adds none: {REFUSED}",
                Remedy(Action.GROW_CLUSTER),
            ),
        ),
        (
            [grown("TriggeredScaleUp", TRIGGERED, 8), grown("NotTriggerScaleUp", REFUSED, 3)],
            Finding("ScalingUp", "pod/p", f"a node is on its way: {TRIGGERED}", blocks=False),
        ),
    ],
    ids=["cluster-autoscaler", "no-node-yet", "no-node-for-long", "the-newest-counts"],
)
def test_obstacles_report_the_autoscaler_for_an_unschedulable_pod(
    events: list[dict[str, Any]], expected: Finding
) -> None:
    assert list(obstacles(unscheduled(TAINTED), events)) == [expected]
    of_another_pod = [{**event, "involvedObject": {"uid": "other"}} for event in events]
    assert [finding.reason for finding in obstacles(unscheduled(TAINTED), of_another_pod)] == ["Unschedulable"]
    gated = unscheduled("", reason="SchedulingGated")
    assert [finding.reason for finding in obstacles(gated, events)] == ["SchedulingGated"]


def conditions(**statuses: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": value} for kind, value in statuses.items()]


@pytest.mark.parametrize(
    ("ready", "containers", "node", "message"),
    [
        ("False", "True", None, "its node node-1 does not answer any more"),
        ("False", "False", None, None),
        ("Unknown", "Unknown", "Unknown", "its node node-1 does not answer since 12:30:00 UTC"),
        ("False", "True", "True", None),
    ],
)
def test_unresponsive_node_is_reported(ready: str, containers: str, node: str | None, message: str | None) -> None:
    seen = pod(
        {"state": {"running": {}}}, phase="Running", conditions=conditions(Ready=ready, ContainersReady=containers)
    )
    seen["spec"]["nodeName"] = "node-1"
    condition = {"type": "Ready", "status": node, "lastTransitionTime": "2026-11-21T12:30:00Z"}
    nodes = (item("Node", "node-1", status={"conditions": [condition]}),) if node else ()
    diagnosed = diagnose(kinds()["Pod"], Snapshot(seen, pods=(seen,), nodes=nodes))
    assert [finding.message for finding in diagnosed.findings] == ([message] if message else [])
    assert diagnosed.phase is (Phase.STUCK if message else Phase.RUNNING)


RUNNING: dict[str, Any] = {"running": {}}
SIDECARS: dict[str, tuple[dict[str, dict[str, Any]], int, str]] = {
    "before the main container": ({"proxy": RUNNING, "main": {}}, 0, "proxy"),
    "two": ({"proxy": RUNNING, "main": {}, "logs": RUNNING}, 0, "proxy, logs"),
    "after a failure": ({"main": {}, "proxy": RUNNING}, 3, "proxy"),
}
"""The states of the containers of a pod, the exit code of the main one, and the names of those that keep it running."""


@pytest.mark.parametrize("case", SIDECARS)
def test_each_sidecar_that_keeps_the_pod_running_is_named(case: str) -> None:
    containers, code, names = SIDECARS[case]
    states = {**containers, "main": {"terminated": {"exitCode": code}}}
    seen = pod(phase="Running")
    seen["spec"]["containers"] = [{"name": name} for name in containers]
    seen["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "main"}
    seen["status"]["containerStatuses"] = [{"name": name, "state": states[name]} for name in containers]
    diagnosis = diagnose(kinds()["Pod"], Snapshot(seen, pods=(seen,)))
    assert (diagnosis.phase, diagnosis.summary) == (
        Phase.STUCK,
        f"container main has ended with exit code {code}, but the pod keeps running for its container {names}",
    )
    assert [(finding.reason, finding.final_after) for finding in diagnosis.findings] == [("SidecarRuns", 60)]


def test_sidecar_that_does_not_run_keeps_no_pod_running() -> None:
    for container_state in [{"terminated": {"exitCode": 0}}, {"waiting": {"reason": "ContainerCreating"}}]:
        seen = pod({"state": {"terminated": {"exitCode": 0}}}, phase="Running")
        seen["spec"]["containers"].append({"name": "proxy"})
        seen["status"]["containerStatuses"].append({"name": "proxy", "state": container_state})
        diagnosis = diagnose(kinds()["Pod"], Snapshot(seen, pods=(seen,)))
        assert "SidecarRuns" not in [finding.reason for finding in diagnosis.findings]


NOT_STARTED = {
    "exitCode": 128,
    "reason": "StartError",
    "message": "failed to create containerd task: context canceled: unknown\n",
    "startedAt": "1970-01-01T00:00:00Z",
}
"""The end of a container whose kubelet was killed while it started the container."""


@pytest.mark.parametrize(
    ("seen", "reason", "message", "hint"),
    [
        (pod(phase="Failed"), "Failed", "failed without a reason from its containers", None),
        (pod({"state": {"terminated": {"exitCode": 139}}}, phase="Failed"), "Error", "segmentation fault", None),
        (
            pod(phase="Failed", reason="NodeLost"),
            "NodeLost",
            "node lost: its node no longer exists",
            "deploy it again with --replace",
        ),
        (
            pod({"state": {"terminated": NOT_STARTED}}, phase="Failed"),
            "StartError",
            "container main could not be started: failed to create containerd task: context canceled: unknown",
            None,
        ),
    ],
)
def test_failure_explains_a_failed_pod(seen: dict[str, Any], reason: str, message: str, hint: str | None) -> None:
    finding = failure(seen)
    assert finding is not None
    assert (finding.reason, finding.hint) == (reason, hint)
    assert message in finding.message


RESTARTED = {
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 127, "reason": "Error", "message": "run: not found\n"}},
    "restartCount": 3,
}


def test_restarted_container_is_reported_without_blocking() -> None:
    finding = crashed(pod(RESTARTED, phase="Running"))
    assert finding is not None
    assert finding.message == (
        "container main ended with exit code 127 (command not found); started again, 3 times so far"
    )
    assert (finding.reason, finding.blocks, finding.log) == ("Error", False, ("run: not found",))


def test_workload_being_deleted_is_pending() -> None:
    seen = unscheduled("0/1 nodes are available")
    seen["metadata"] |= GOING
    diagnosis = diagnose(kinds()["Pod"], Snapshot(seen, pods=(seen,)))
    assert (diagnosis.phase, diagnosis.summary, state(seen)) == (Phase.PENDING, "is being deleted", "Terminating")


def test_pod_deleted_while_running_has_failed() -> None:
    seen = pod(phase="Failed")
    seen["metadata"] |= GOING
    diagnosis = diagnose(kinds()["Pod"], Snapshot(seen, pods=(seen,)))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, "it was deleted, which stopped it")


def job(*, run_policy: dict[str, Any] | None = None, **condition: str) -> dict[str, Any]:
    conditions = [{"status": "True", **condition}] if condition else [{"type": "Created", "status": "True"}]
    template = {"spec": {"containers": [{"name": "worker"}]}}
    spec = {"runPolicy": run_policy or {}, "mpiReplicaSpecs": {"Worker": {"replicas": 0, "template": template}}}
    return item("MPIJob", "j", metadata=MADE, spec=spec, status={"conditions": conditions})


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
def test_failed_mpijob_is_explained(condition: dict[str, str], summary: str) -> None:
    seen = job(run_policy={"backoffLimit": 2}, type="Failed", **condition)
    diagnosis = diagnose(kinds()["MPIJob"], Snapshot(seen))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.FAILED, summary)


def test_mpijob_reports_event_of_a_refused_launcher() -> None:
    child = item("Job", "j-launcher", status={})
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"uid": child["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "Error creating: admission webhook denied the request: no launchers here",
    }
    diagnosis = diagnose(kinds()["MPIJob"], Snapshot(job(), children=(child,), events=(event,)))
    assert (diagnosis.phase, diagnosis.findings[0].subject) == (Phase.STUCK, "job/j-launcher")
    assert diagnosis.summary == "admission webhook denied the request: no launchers here"


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_end_unseen_by_the_operator_is_reported_without_blocking(end: str) -> None:
    child = item("Job", "j-launcher", status={"active": 1, "conditions": [{"type": end, "status": "True"}]})
    diagnosis = diagnose(kinds()["MPIJob"], Snapshot(job(), children=(child,)))
    (finding,) = diagnosis.findings
    assert diagnosis.phase is Phase.PENDING
    assert finding.message == f"the launcher has ended ({end}), but mpi-operator has not updated the job yet"
    assert finding.hint == "is mpi-operator running? kubectl get pods --all-namespaces | grep mpi-operator"
    assert not finding.blocks
