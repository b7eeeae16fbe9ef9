"""The sentences for 22 causes for which nothing runs: recorded answers of Kubernetes, mpi-operator and Kueue.

Each cause gets a sentence of its own, and no other cause gets it.
"""

from __future__ import annotations

import pytest

from packager.kubernetes.remedy import Action
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Finding, Phase
from tests.diagnosis import test_queued
from tests.diagnosis.test_diagnose import recorded, verdict
from tests.diagnosis.test_scheduling import PODS

CAUSES = {
    "Kueue: quota used up": ("the quota of the ClusterQueue team-used for cpu", Action.WAIT_FOR_QUOTA),
    "Kueue: asks for too much": ("never has more than 1 for one workload", Action.REQUEST_LESS),
    "Kueue: stopped queue": ("the ClusterQueue team-stopped is stopped", Action.ASK_ABOUT_QUEUE),
    "Kueue: label of the flavor": ("the nodes of the flavor team-labelled", Action.CORRECT_PLACEMENT),
    "Kueue: taint of the flavor": ("do not tolerate the taint of the flavor team-tainted", Action.CORRECT_PLACEMENT),
    "Kueue: no quota for a resource": ("has no quota for memory", Action.ASK_ABOUT_QUEUE),
    "Kueue: namespace refused": ("takes no workloads of this namespace", Action.ASK_ABOUT_QUEUE),
    "Kueue: no ClusterQueue": ("the ClusterQueue team-nowhere of its LocalQueue", Action.ASK_ABOUT_QUEUE),
    "Kueue: no LocalQueue": ("the namespace has no LocalQueue nope", Action.CHOOSE_QUEUE),
    "node: memory": ("too little memory left", Action.WAIT_FOR_ROOM),
    "node: cpu": ("too little cpu left", Action.WAIT_FOR_ROOM),
    "node: device": ("too little nvidia.com/gpu left", Action.WAIT_FOR_ROOM),
    "node: label": ("the only node lacks a label that it asks for", Action.INSPECT_LABELS),
    "node: spread": ("would make the spread of the pods uneven", Action.LOOSEN_SPREAD),
    "gang: no other pod": ("its group starts with 2 pods, and has 1", Action.RUN_AGAIN),
    "gang: no PodGroup": ("its PodGroup does not exist", Action.RUN_AGAIN),
    "claim: missing": ("the claim absent does not exist", Action.CREATE_OBJECT),
    "claim: unbound": ("one of its claims has no volume yet", Action.INSPECT_CLAIMS),
    "image": ("the image docker.io/mpioperator/mpi-pi:nope cannot be pulled", Action.REACH_REGISTRY),
    "quota of the namespace": ("asked for pods=1, used pods=1 of pods=1", Action.WAIT_FOR_PODS),
    "Pod Security": ("the namespace enforces Pod Security restricted:latest", Action.MEET_LEVEL),
    "refused by the operator": ('Unsupported value: "Sometimes"', Action.CORRECT_WORKLOAD),
}
"""By cause, a part of its sentence, and the fix, whose words say who can change it."""

_QUEUED = {
    "quota used up": "first",
    "asks for too much": "large",
    "stopped queue": "stopped",
    "label of the flavor": "labelled",
    "taint of the flavor": "tainted",
    "no quota for a resource": "nomem",
    "namespace refused": "others",
    "no ClusterQueue": "dangling",
    "no LocalQueue": "missing",
}
_PODS = {
    "node: memory": "memory",
    "node: cpu": "cpu",
    "node: device": "device",
    "node: label": "selector",
    "node: spread": "spread",
    "gang: no other pod": "gang-alone",
    "gang: no PodGroup": "gang-absent",
    "claim: missing": "no-claim",
    "claim: unbound": "unbound-claim",
}
_OTHERS = {
    "image": "pod-image",
    "quota of the namespace": "mpijob-quota",
    "Pod Security": "mpijob-forbidden",
    "refused by the operator": "mpijob-rejected",
}


def snapshot(cause: str) -> Snapshot:
    """Return the recorded workload that waits for a cause."""
    system, _, detail = cause.partition(": ")
    if system == "Kueue":
        return test_queued.snapshot(_QUEUED[detail])
    if cause in _PODS:
        pod = PODS[_PODS[cause]]
        return Snapshot(pod, pods=(pod,), age=60)
    return recorded(_OTHERS[cause], age=60)


def only_finding(cause: str) -> Finding:
    """Return the one finding that keeps the workload from running."""
    result = verdict(snapshot(cause))
    assert result.phase is Phase.STUCK
    blocking = [finding for finding in result.findings if finding.blocks]
    assert len(blocking) == 1, blocking
    assert result.summary == blocking[0].message
    return blocking[0]


def test_table_has_all_causes() -> None:
    assert len(CAUSES) == 22


@pytest.mark.parametrize("cause", CAUSES)
def test_cause_gets_its_own_sentence_and_no_other(cause: str) -> None:
    finding = only_finding(cause)
    assert [other for other, (words, _) in CAUSES.items() if words in finding.message] == [cause]
    assert finding.remedy is not None
    assert finding.remedy.action is CAUSES[cause][1]
    assert finding.hint
