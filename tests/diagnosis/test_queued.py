"""Why Kueue holds a workload: recorded answers of Kueue 0.19, one for each cause."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.objects import uid
from packager.kubernetes.snapshot import Queueing, Snapshot
from packager.kubernetes.verdict import Finding, Phase
from packager.workloads.kinds import kinds
from tests.diagnosis.test_diagnose import RECORDED
from tests.fake_cluster import item

ANSWERS = json.loads((RECORDED / "kueue.json").read_text(encoding="utf-8"))
ASK = "ask who administers the queue: kubectl describe localqueue {}"
WAIT = "wait for others to end, or request less in the overlay's resources; kubectl describe localqueue {}"
PLACEMENT = "correct nodeSelector and tolerations in placement.yaml (option placement)"


def snapshot(job: str, age: float = 60) -> Snapshot:
    """Return a snapshot of a recorded Job that Kueue holds."""
    answer = deepcopy(ANSWERS["jobs"][job])
    queue = answer["workload"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    queueing = Queueing(queue, tuple(deepcopy(ANSWERS["workloads"])), answer["localQueue"])
    return Snapshot(answer["workload"], age=age, queueing=queueing)


def reason(seen: Snapshot) -> Finding:
    """Return the one reason why the workload waits."""
    verdict = diagnose(kinds()["Job"], seen)
    assert verdict.phase is Phase.STUCK
    [finding] = verdict.findings
    assert verdict.summary == finding.message
    return finding


CAUSES = {
    "first": (
        "QuotaUsedUp",
        (
            "the quota of the ClusterQueue team-used for cpu (flavor team-plain) is used up: 400m more needed; in this "
            "namespace, job/holder uses it; it is the next in its queue"
        ),
        WAIT.format("used"),
    ),
    "second": (
        "QuotaUsedUp",
        (
            "the quota of the ClusterQueue team-used for cpu (flavor team-plain) is used up: 400m more needed; in this "
            "namespace, job/holder uses it; 1 is ahead of it in its queue"
        ),
        WAIT.format("used"),
    ),
    "large": (
        "QuotaTooSmall",
        (
            "it asks for 3 of cpu, and the ClusterQueue team-small never has more than 1 for one workload (flavor "
            "team-plain)"
        ),
        "request less in the overlay's resources",
    ),
    "stopped": ("QueueStopped", "the ClusterQueue team-stopped is stopped, and starts nothing", ASK.format("stopped")),
    "labelled": (
        "NoFlavor",
        "the nodes of the flavor team-labelled of the ClusterQueue team-labelled lack a label that its pods ask for",
        PLACEMENT,
    ),
    "tainted": (
        "NoFlavor",
        "its pods do not tolerate the taint of the flavor team-tainted of the ClusterQueue team-tainted",
        PLACEMENT,
    ),
    "nomem": (
        "QuotaMissing",
        "the ClusterQueue team-nomem has no quota for memory, which it asks for",
        ASK.format("nomem"),
    ),
    "others": (
        "QueueRefuses",
        "the ClusterQueue team-others takes no workloads of this namespace",
        ASK.format("others"),
    ),
    "dangling": (
        "QueueMissing",
        "the ClusterQueue team-nowhere of its LocalQueue dangling does not exist",
        ASK.format("dangling"),
    ),
    "missing": (
        "QueueMissing",
        "the namespace has no LocalQueue nope",
        "kubectl get localqueues lists the existing ones: correct QUEUE in site.env",
    ),
}


@pytest.mark.parametrize("job", CAUSES)
def test_recorded_workload_gets_the_reason_of_kueue_and_its_fix(job: str) -> None:
    finding = reason(snapshot(job))
    assert (finding.reason, finding.message, finding.hint) == CAUSES[job]


def changed(job: str, **fields: Any) -> Snapshot:
    """Return a snapshot in which Kueue's Workload of a Job has other fields in its spec and status."""
    seen = snapshot(job)
    assert seen.queueing is not None
    own = seen.queueing.own(seen.workload)
    assert own is not None
    for key, value in fields.items():
        own[key].update(value)
    return seen


def condition(kind: str, status: str, message: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": "Any", "message": message}]}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            (
                "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 1 more needed"
                ". Pending the preemption of 2 workload(s)"
            ),
            "Kueue stops 2 workload(s) of lower priority in the ClusterQueue team-used for it",
        ),
        (
            'couldn\'t assign flavors to pod set node: topology "racks" allows to fit only 2 out of 3 pod(s)',
            "the topology racks of the ClusterQueue team-used allows to fit only 2 out of 3 pod(s)",
        ),
        (
            "couldn't assign flavors to pod set main: topology \"racks\" doesn't allow to fit any of 4 pod(s)",
            "the topology racks of the ClusterQueue team-used doesn't allow to fit any of 4 pod(s)",
        ),
        ("resources didn't satisfy LimitRange constraints: a", "Kueue does not admit it: resources didn't satisfy"),
        (
            "waiting for all admitted workloads to be in PodsReady condition",
            "Kueue starts one workload after the other",
        ),
        ("a sentence of a later Kueue", "Kueue holds it: a sentence of a later Kueue"),
        ("", "Kueue has not examined it yet"),
        ("x" * 10_000, "Kueue holds it: xxx"),
    ],
)
def test_other_sentence_of_kueue_is_translated_or_quoted(message: str, words: str) -> None:
    finding = reason(changed("first", status=condition("QuotaReserved", "False", message)))
    assert finding.message.startswith(words)
    assert len(finding.message) < 600


def test_deactivated_workload_is_reported_with_its_cause() -> None:
    evicted = condition("Evicted", "True", "The workload has failed its admission check")
    finding = reason(changed("first", spec={"active": False}, status=evicted))
    assert (finding.reason, finding.message) == (
        "Deactivated",
        "Kueue has given it up: The workload has failed its admission check",
    )


def test_admission_check_that_is_pending_is_named() -> None:
    checks = {"admissionChecks": [{"name": "nodes", "state": "Pending", "message": "a node is being made"}]}
    status = {**condition("QuotaReserved", "True", ""), **checks}
    assert reason(changed("first", status=status)).message == (
        "its quota is reserved, and the admission check nodes is Pending: a node is being made"
    )


def test_workload_that_kueue_does_not_notice_is_reported_after_a_while() -> None:
    seen = snapshot("first")
    assert seen.queueing is not None
    unnoticed = replace(seen, queueing=replace(seen.queueing, workloads=()))
    assert reason(unnoticed).message == "it is in the queue used, and Kueue has not noticed it"
    assert reason(replace(unnoticed, age=5)).message == "suspended, by a queue or a user"


def test_suspended_workload_outside_of_queues_keeps_its_message() -> None:
    assert reason(replace(snapshot("first"), queueing=None)).message == "suspended, by a queue or a user"


CREATED = "2026-11-26T12:00:00Z"


def gated(group: int) -> dict[str, Any]:
    """Return a pod of a LeaderWorkerSet that Kueue holds."""
    labels = {"leaderworkerset.sigs.k8s.io/group-index": str(group), "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}
    gates = {"containers": [{"name": "main"}], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    metadata = {"labels": labels, "creationTimestamp": CREATED}
    status = {"phase": "Pending", "conditions": [scheduled]}
    return item("Pod", f"a-{group}", metadata=metadata, spec=gates, status=status)


def test_group_that_waits_is_reported_once_beside_one_that_is_admitted() -> None:
    """A LeaderWorkerSet has a Workload for each group."""
    seen = snapshot("second")
    assert seen.queueing is not None
    groups = item("LeaderWorkerSet", "a", metadata={"creationTimestamp": CREATED}, spec={"replicas": 2})
    waiting, admitted = (deepcopy(seen.queueing.own(seen.workload)) for _ in range(2))
    assert waiting is not None
    assert admitted is not None
    for workload in (waiting, admitted):
        workload["metadata"]["ownerReferences"] = [{"kind": "LeaderWorkerSet", "name": "a", "uid": uid(groups)}]
    admitted["status"] = condition("QuotaReserved", "True", "") | {"admission": {"clusterQueue": "team-used"}}
    queueing = replace(seen.queueing, workloads=(admitted, waiting))
    pods = (gated(1), gated(2))
    verdict = diagnose(kinds()["LeaderWorkerSet"], Snapshot(groups, pods=pods, age=60, queueing=queueing))
    reasons = [finding for finding in verdict.findings if finding.reason == "QuotaUsedUp"]
    assert [finding.subject for finding in reasons] == ["leaderworkerset/a"]
    assert "in this namespace, leaderworkerset/a uses it; it is the next in its queue" in reasons[0].message


def test_workload_of_a_pod_gives_the_reason_of_its_deployment() -> None:
    seen = snapshot("first")
    assert seen.queueing is not None
    pod = gated(0)
    own = seen.queueing.own(seen.workload)
    assert own is not None
    own["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "a-0", "uid": uid(pod)}]
    deployment = item("Deployment", "a", metadata={"creationTimestamp": CREATED}, spec={"replicas": 1})
    verdict = diagnose(kinds()["Deployment"], Snapshot(deployment, pods=(pod,), age=60, queueing=seen.queueing))
    assert "QuotaUsedUp" in [finding.reason for finding in verdict.findings]
