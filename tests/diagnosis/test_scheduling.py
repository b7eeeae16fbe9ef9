"""The scheduler's messages about pods that fit no node: recorded, and as larger clusters write them."""

from __future__ import annotations

import json

import pytest

from packager.diagnosis.obstacles import obstacles
from packager.diagnosis.scheduling import unfit
from packager.kubernetes.remedy import RUN_AGAIN, Action, Remedy
from tests.diagnosis.test_diagnose import RECORDED

PODS = json.loads((RECORDED / "unscheduled.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("pod", "words", "remedy"),
    [
        ("memory", "the only node has too little memory left", Remedy.of(Action.WAIT_FOR_ROOM)),
        ("cpu", "the only node has too little cpu left", Remedy.of(Action.WAIT_FOR_ROOM)),
        ("device", "the only node has too little nvidia.com/gpu left", Remedy.of(Action.WAIT_FOR_ROOM)),
        ("selector", "the only node lacks a label that it asks for", Remedy.of(Action.INSPECT_LABELS)),
        ("spread", "the only node would make the spread of the pods uneven", Remedy.of(Action.LOOSEN_SPREAD)),
        (
            "no-claim",
            "the claim absent does not exist in the namespace",
            Remedy.of(Action.CREATE_OBJECT, kind="persistentvolumeclaim", name="absent"),
        ),
        ("unbound-claim", "one of its claims has no volume yet", Remedy.of(Action.INSPECT_CLAIMS)),
        ("gang-alone", "its group starts with 2 pods, and has 1", RUN_AGAIN),
        (
            "gang-volcano",
            "there is no room for all pods of its group, which start together",
            Remedy.of(Action.WAIT_FOR_ROOM),
        ),
        (
            "gang-volcano-fits",
            "there is no room for all pods of its group, which start together",
            Remedy.of(Action.WAIT_FOR_ROOM),
        ),
        ("gang-absent", "its PodGroup does not exist", RUN_AGAIN),
    ],
)
def test_recorded_pod_gets_one_reason_and_its_fix(pod: str, words: str, remedy: Remedy) -> None:
    [finding] = obstacles(PODS[pod], [])
    assert (finding.message, finding.remedy) == (f"no node can run it: {words}", remedy)


MESSAGES = {
    "17 Insufficient memory, 3 node(s) had untolerated taint {nvidia.com/gpu: present}": (
        (
            "of 20 nodes, 17 have too little memory left and 3 have the taint nvidia.com/gpu=present, which it does "
            "not tolerate"
        ),
        Action.WAIT_FOR_ROOM,
    ),
    "1 Too many pods, 19 node(s) had untolerated taint {gpu: }": (
        "of 20 nodes, 1 has as many pods as it may and 19 have the taint gpu, which it does not tolerate",
        Action.WAIT_FOR_ROOM,
    ),
    "1 node(s) were unschedulable, 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, "
    "18 node(s) didn't match Pod's node affinity/selector": (
        "of 20 nodes, 1 is cordoned, 1 is not ready and 18 lack a label that it asks for",
        Action.INSPECT_LABELS,
    ),
    "20 node(s) had untolerated taint(s)": (
        "of 20 nodes, 20 have a taint that it does not tolerate",
        Action.INSPECT_LABELS,
    ),
    "20 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }": (
        "of 20 nodes, 20 are short of disk",
        Action.INSPECT_NODES,
    ),
    "20 node(s) didn't match PersistentVolume's node affinity": (
        "of 20 nodes, 20 cannot reach the volume of its claim",
        Action.INSPECT_CLAIMS,
    ),
    "20 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
    "pod": ("of 20 nodes, 20 wait for another pod that has its claim for itself", Action.WAIT_FOR_PODS),
    "20 cannot allocate all claims": ("of 20 nodes, 20 have no free device for its claim", Action.INSPECT_DEVICES),
    "20 node(s) didn't have free ports for the requested pod ports": (
        "of 20 nodes, 20 have its port taken",
        Action.WAIT_FOR_ROOM,
    ),
    "3 node(s) did something new, 17 Insufficient cpu": (
        "of 20 nodes, 3 node(s) did something new and 17 have too little cpu left",
        Action.WAIT_FOR_ROOM,
    ),
    "20 node(s) did something new": ("of 20 nodes, 20 node(s) did something new", None),
}


@pytest.mark.parametrize("reasons", MESSAGES)
def test_reasons_are_counted_by_nodes(reasons: str) -> None:
    words, action = MESSAGES[reasons]
    tail = "preemption: 0/20 nodes are available: 20 Preemption is not helpful for scheduling."
    why = unfit(f"0/20 nodes are available: {reasons}. no new claims to deallocate, {tail}")
    assert (why.words, why.remedy) == (words, action and Remedy.of(action))


def test_reason_that_volcano_gives_for_a_pod_of_a_group_is_taken_from_its_message() -> None:
    counts = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Unschedulable, 1 Schedulable"
    why = unfit(f"{counts}. Origin reason is train-1: 0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu.")
    assert (why.words, why.of_group) == ("of 3 nodes, 3 have too little nvidia.com/gpu left", False)


def test_reason_that_coscheduling_gives_for_a_pod_with_a_node_is_the_room_of_its_group() -> None:
    for reason in [
        "optimistic rejection in PostFilter",
        "rejected due to timeout after waiting 5s at plugin Coscheduling",
    ]:
        why = unfit(f"0/1 nodes are available: 1 {reason}.")
        assert (why.words, why.of_group) == ("there is no room for all pods of its group, which start together", True)


def test_other_message_stays_as_it_is() -> None:
    for message in ["", "something else", "0/3 nodes are available:", "0/x nodes are available: 1 a"]:
        assert unfit(message).words in (message, "")


def test_cluster_without_nodes_is_said() -> None:
    assert unfit("no nodes available to schedule pods").words == "the cluster has no node"
