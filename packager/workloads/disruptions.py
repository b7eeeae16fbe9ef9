"""Finds pods of Jobs that a drain, a preemption or a lost node has stopped, where that is not a failure. Pure.

Kubernetes puts the condition DisruptionTarget on such a pod, and a Job's podFailurePolicy decides what follows
(https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).

Tests: workloads/job/test_life.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at, listing, mapping
from packager.kubernetes.objects import is_being_deleted, last_seen, name, sentence, status, true_condition
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

CONDITION = "DisruptionTarget"

_TIMES = {1: "once", 2: "twice"}


def is_disrupted(pod: Object) -> bool:
    """Whether a drain, a preemption or a lost node stops the pod, or has stopped it."""
    return true_condition(pod, CONDITION) is not None


def counted(job: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the pods whose end counts as an attempt of the Job."""
    return [pod for pod in pods if not (_ignores(job) and is_disrupted(pod))]


def disruptions(snapshot: Snapshot) -> int:
    """Return how many pods of a Job were disrupted, as far as its events tell: a drain deletes its pods."""
    job = snapshot.workload
    if not _ignores(job):
        return 0
    creations, deletions = (
        [sentence(event).rpartition(" ")[2] for event in sorted(snapshot.about(job, reason), key=last_seen)]
        for reason in ("SuccessfulCreate", "SuccessfulDelete")
    )
    existing = set(map(name, snapshot.pods))
    while creations and creations[-1] not in existing:  # made after the pods were read, or not replaced yet
        creations.pop()
    failed: int = sum(status(pod).get("phase") == "Failed" for pod in counted(job, snapshot.pods))
    gone = len(set(creations) - set(deletions) - existing)
    ended = [pod for pod in snapshot.pods if is_disrupted(pod) and _is_stopped(pod)]
    deleted = max(0, int(status(job).get("failed") or 0) - failed)
    return len(ended) + max(0, gone - deleted)


def disrupted(subject: str, what: str, count: int) -> Finding:
    """Return the finding that `what` was disrupted `count` times."""
    times = _TIMES.get(count, f"{count} times")
    message = f"{what} {times} after a drain, a preemption or a lost node, which does not count as a failure"
    return Finding("Disrupted", subject, message, blocks=False)


def _is_stopped(pod: Object) -> bool:
    return is_being_deleted(pod) or status(pod).get("phase") == "Failed"


def _ignores(job: Object) -> bool:
    """Whether the first rule of the Job's podFailurePolicy ignores disrupted pods."""
    rule = next((mapping(rule) for rule in listing(at(job, ("spec", "podFailurePolicy", "rules")))), {})
    types = [mapping(one).get("type") for one in listing(rule.get("onPodConditions"))]
    return rule.get("action") == "Ignore" and types == [CONDITION]
