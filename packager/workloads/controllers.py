"""Checks that the controllers of kube-controller-manager share. Tests: workloads/deployment/test_life.py."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.kubectl.refusals import refusal
from packager.kubernetes.manifest import at, listing, mapping
from packager.kubernetes.objects import (
    created,
    is_being_deleted,
    last_seen,
    name,
    sentence,
    shown,
    status,
    true_condition,
)
from packager.kubernetes.pods import LAST_LINES, ended_at, failure
from packager.kubernetes.verdict import RETRIED, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

_MAX_PREFIX = 58
"""Characters that are left of a name before five are put behind it (k8s.io/apiserver, names.SimpleNameGenerator)."""


def generated_prefix(prefix: str, index: str = "") -> str:
    """Return a generated name without its last five characters: the beginning of `prefix`, and the whole index.

    The index is never cut (Kubernetes, pkg/controller/job: podGenerateNameWithIndex).
    """
    return f"{prefix[: _MAX_PREFIX - len(index)]}{index}"


FAILING = ("Failed", "FailureTarget")
"""Conditions of a Job that has failed, or whose pods are being deleted for its failure."""

_FIRST_PAUSE = 10
_LONGEST_PAUSE = 600
"""Seconds that a Job waits before it makes another pod: twice as long each time (pkg/controller/job)."""


def is_ending(job: Object) -> bool:
    """Whether the Job has ended, or its controller has decided how it ends."""
    return any(true_condition(job, kind) for kind in ("Complete", "SuccessCriteriaMet", *FAILING))


def is_past_deadline(job: Object) -> bool:
    """Whether a deadline has stopped the Job's pods."""
    return any("DeadlineExceeded" in (true_condition(job, kind) or {}).get("reason", "") for kind in FAILING)


def attempts_begun(job: Object) -> int | None:
    """Return the number of pods that a Job has made; None before the first, and for a Job with several completions.

    A pod that has just ended is counted nowhere else until its finalizer is removed (k8s.io/api/batch/v1: JobStatus).
    """
    spec, counts = job["spec"], status(job)
    if spec.get("completions", spec.get("parallelism", 1)) != 1:
        return None
    uncounted = counts.get("uncountedTerminatedPods") or {}
    ended = sum(len(uncounted.get(key) or ()) for key in ("failed", "succeeded"))
    return sum(int(counts.get(key) or 0) for key in ("active", "failed", "succeeded")) + ended or None


def attempts_message(who: str, attempts: int) -> str:
    """Return the message that all attempts have failed."""
    return f"{who} has failed" + (f" in each of {attempts} attempts" if attempts > 1 else "")


def pod_refusal(snapshot: Snapshot, item: Object) -> Finding | None:
    """Return why the newest pod of `item` could not be created; None when it was created later."""
    newest = max((last_seen(event) for event in snapshot.about(item, "SuccessfulCreate")), default="")
    for event in reversed(snapshot.warnings(item)):
        if last_seen(event) < newest:
            return None
        if finding := refusal(shown(item), event.get("message", "")):
            return finding
    return None


def replaces_pods(job: Object, pods: Sequence[Object], attempts: int) -> bool:
    """Whether a Job creates another pod after those of its pods that have failed, or are being deleted.

    A pod that is being deleted counts as failed, unless it has succeeded (pkg/controller/job: isPodFailed).
    """
    counts = status(job)
    counted = int(counts.get("failed") or 0) + len((counts.get("uncountedTerminatedPods") or {}).get("failed") or ())
    phases = [(status(pod).get("phase"), is_being_deleted(pod)) for pod in pods]
    failed = sum(phase == "Failed" or (is_going and phase != "Succeeded") for phase, is_going in phases)
    return not is_ending(job) and not is_being_deleted(job) and max(counted, failed) < attempts


def earlier_attempts(job: Object, pods: Sequence[Object], attempts: int) -> Iterator[Finding]:
    """Yield the failures of a Job's pods, except of the last that it may make; the newest with the next attempt."""
    newest = max(pods, key=created, default=None)
    for attempt, pod in enumerate(sorted(pods, key=created)[: attempts - 1], start=1):
        if finding := failure(pod):
            message = f"attempt {attempt} of {attempts}: {finding.message}"
            end = ended_at(pod) if pod is newest and not is_ending(job) else None
            next_try = end and end + _pause(_failed(job, pods))
            log = finding.log[-LAST_LINES:]
            yield Finding(RETRIED, finding.subject, message, finding.remedy, blocks=False, log=log, next_try=next_try)


def _failed(job: Object, pods: Sequence[Object]) -> int:
    """Return the number of failed pods; the status of a Job without a controller still counts them as running."""
    return max(int(status(job).get("failed") or 0), sum(failure(pod) is not None for pod in pods))


def _pause(failed: int) -> timedelta:
    """Return how long a Job waits before it makes another pod after `failed` ones."""
    return timedelta(seconds=min(_FIRST_PAUSE * 2 ** min(failed - 1, 6), _LONGEST_PAUSE))


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
    stopped = [pod for pod in snapshot.pods if is_being_deleted(pod) or status(pod).get("phase") == "Failed"]
    ended = sum(map(is_disrupted, stopped))
    deleted = max(0, int(status(job).get("failed") or 0) - failed)
    return ended + max(0, gone - deleted)


def disrupted(subject: str, what: str, count: int) -> Finding:
    """Return the finding that `what` was disrupted `count` times."""
    times = _TIMES.get(count, f"{count} times")
    message = f"{what} {times} after a drain, a preemption or a lost node, which does not count as a failure"
    return Finding("Disrupted", subject, message, blocks=False)


def _ignores(job: Object) -> bool:
    """Whether the first rule of the Job's podFailurePolicy ignores disrupted pods."""
    rule = next((mapping(rule) for rule in listing(at(job, ("spec", "podFailurePolicy", "rules")))), {})
    types = [mapping(one).get("type") for one in listing(rule.get("onPodConditions"))]
    return rule.get("action") == "Ignore" and types == [CONDITION]
