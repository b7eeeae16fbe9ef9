"""Determines the cause that stopped a pod before it ended by itself: a deletion, a drain, or its node. Pure.

A program that saves its state when it is told to stop exits with 0, and Kubernetes then calls its pod Succeeded, as if
its work were done. The order tells the two apart: whether the program ended before or after it was told to stop
(https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).

Tests: diagnosis/test_losses.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.objects import (
    is_being_deleted,
    main_container,
    main_state,
    moment,
    name,
    sentence,
    shown,
    status,
    true_condition,
    uid,
)
from packager.kubernetes.pods import CAUSES
from packager.kubernetes.remedy import RUN_AGAIN
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

DELETED = "Deleted"

_DISRUPTION = "DisruptionTarget"

_KUBELET_CONFIRMATION = timedelta(seconds=5)
"""The time in which a kubelet confirms the end of a pod that it was told to stop.

It does so by deleting the pod once more, without a grace period: the time of the first request is then lost.
"""


def stopped(pod: Object, snapshot: Snapshot) -> Finding | None:
    """Return the cause that stopped the pod before it had ended by itself; None if it was not stopped."""
    if not (is_being_deleted(pod) or true_condition(pod, _DISRUPTION)) or _ended_first(pod, snapshot):
        return None
    disruption = true_condition(pod, _DISRUPTION)
    reason = str((disruption or {}).get("reason") or DELETED)
    return Finding(reason, shown(pod), _message(pod, snapshot), RUN_AGAIN, blocks=False)


def stop_requested_at(pod: Object) -> datetime | None:
    """Return the time at which the pod was told to stop, by the server's clock; None if it was not, or unknown."""
    if (disruption := true_condition(pod, _DISRUPTION)) and disruption.get("lastTransitionTime"):
        return moment(disruption["lastTransitionTime"])
    grace = pod["metadata"].get("deletionGracePeriodSeconds")
    return (
        moment(pod["metadata"]["deletionTimestamp"]) - timedelta(seconds=grace)
        if is_being_deleted(pod) and grace
        else None
    )


def ended_at(pod: Object) -> datetime | None:
    """Return when the pod's main container ended; None if it has not, or the time is not known."""
    terminated = main_state(pod).get("terminated") or {}
    return moment(terminated["finishedAt"]) if terminated.get("finishedAt") else None


def started_at(pod: Object) -> datetime | None:
    """Return when the pod's main container was started, the last time; None when it was not."""
    state = main_state(pod)
    begin = (state.get("terminated") or state.get("running") or {}).get("startedAt")
    return moment(begin) if begin else None


def has_ended(pod: Object) -> bool:
    """Whether the pod's main container has ended, or the pod as a whole."""
    return "terminated" in main_state(pod) or status(pod).get("phase") in ("Succeeded", "Failed")


def _ended_first(pod: Object, snapshot: Snapshot) -> bool:
    """Whether the main container had ended by itself before the pod was told to stop."""
    if "terminated" not in main_state(pod) or any(_is_kill(event, pod) for event in snapshot.events):
        return False
    end, stop = ended_at(pod), stop_requested_at(pod)
    if end is None:
        return True
    if stop is None:
        # The time of the signal is not known; a kubelet that reports its actions would have reported a kill.
        if any(event["involvedObject"].get("uid") == uid(pod) for event in snapshot.events):
            return True
        return moment(pod["metadata"]["deletionTimestamp"]) - end > _KUBELET_CONFIRMATION
    # In one and the same second, the end is far more often the answer to the word.
    return end < stop


def _is_kill(event: Object, pod: Object) -> bool:
    """Whether the kubelet says that it has stopped the pod's main container, which it does only of one that runs."""
    is_kill = event["involvedObject"].get("uid") == uid(pod) and event.get("reason") == "Killing"
    return is_kill and sentence(event).endswith(f" container {main_container(pod)}")


def _message(pod: Object, snapshot: Snapshot) -> str:
    if disruption := true_condition(pod, _DISRUPTION):
        reason, detail = disruption.get("reason", ""), sentence(disruption)
        if reason in CAUSES:
            return f"{CAUSES[reason]}, which stopped it"
        return (
            f"its node stopped it: {detail}"
            if reason == "TerminationByKubelet"
            else f"it was stopped: {detail or reason}"
        )
    return f"{deletion_cause(pod, snapshot)}, which stopped it"


def deletion_cause(pod: Object, snapshot: Snapshot) -> str:
    """Return the cause of a deletion that the pod's own status does not explain."""
    if snapshot.namespace and is_being_deleted(snapshot.namespace):
        return f"its namespace {name(snapshot.namespace)} is being deleted"
    if is_being_deleted(snapshot.workload) and uid(pod) != uid(snapshot.workload):
        return f"{shown(snapshot.workload)} is being deleted"
    return "it was deleted"
