"""Job in a cluster: one pod after the other until one succeeds, created by Kubernetes itself (batch/v1).

A Job is over when `Complete` or `Failed` is true. `SuccessCriteriaMet` and `FailureTarget` come before these, while the
pods are still taken away, and are no end (Kubernetes, pkg/controller/job/job_controller.go: delayTerminalCondition).

An array (completionMode Indexed) runs its program once for each index, some of them at a time. One count of failed
pods, backoffLimit, holds for all indexes together: `backoffLimitPerIndex` is younger than 1.28, and older API servers
refuse a manifest that has it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.kubernetes.objects import annotation, created, sentence, shown, status, true_condition
from packager.kubernetes.pods import LAST_LINES, failure
from packager.kubernetes.verdict import RETRIED, Finding, Phase, Verdict
from packager.workloads.controllers import (
    attempts_begun,
    attempts_message,
    counted,
    disrupted,
    disruptions,
    earlier_attempts,
    generated_prefix,
    is_ending,
    is_past_deadline,
    pod_refusal,
    replaces_pods,
)
from packager.workloads.kinds import Role, Workload
from packager.workloads.program import INDEX_ANNOTATION
from packager.workloads.structures import is_suspended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

_POD = "the pod"

_JOB_NAME = "job-name"
"""The label of a Job's pods; `batch.kubernetes.io/job-name` says the same from Kubernetes 1.27 on."""


class Job(Workload):
    """A workload that is one pod, or as many as its retries allow, one after the other."""

    name = "Job"
    resource = "jobs.batch"
    name_label = _JOB_NAME

    def role(self, name: str, pod: str) -> Role | None:
        """Return "main" for a pod of the Job: its name ends in its index, if any, and five of the controller's."""
        prefix = pod[:-5] if re.fullmatch(".+[a-z0-9]{5}", pod) else ""
        index = re.search("-[0-9]+-$", prefix)
        prefixes = {generated_prefix(f"{name}-"), *([generated_prefix(name, index[0])] if index else [])}
        return "main" if prefix in prefixes else None

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return the verdict from the conditions Complete and Failed."""
        job = snapshot.workload
        if true_condition(job, "Complete"):
            if indexes := _indexes(job):
                return Verdict(Phase.SUCCEEDED, f"all {len(indexes)} indexes have succeeded")
            return Verdict(Phase.SUCCEEDED, f"{_POD} has succeeded")
        failed = true_condition(job, "Failed")
        return None if failed is None else Verdict(Phase.FAILED, _reason(snapshot, failed))

    def attempts(self, snapshot: Snapshot) -> int | None:
        """Return the number of pods that the Job has made; None for an array, and others with several pods."""
        return attempts_begun(snapshot.workload)

    def progress(self, snapshot: Snapshot) -> str | None:
        """Return the progress of an array: the number of finished indexes."""
        return _progress(snapshot.workload) if _indexes(snapshot.workload) else None

    def stops_its_pods(self, snapshot: Snapshot) -> bool:
        """Whether a deadline or a suspension has."""
        return is_past_deadline(snapshot.workload) or is_suspended(snapshot.workload)

    def replaces_pods(self, snapshot: Snapshot) -> bool:
        """Whether a retry is left: of an array, all indexes have them together."""
        job = snapshot.workload
        return not is_suspended(job) and replaces_pods(job, counted(job, snapshot.pods), _attempts(job))

    def obstacles(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the obstacles to creating the pod, and the failures of earlier pods."""
        job = snapshot.workload
        yield from _disrupted(snapshot)
        counts, pods = status(job), counted(job, snapshot.pods)
        left = (len(_indexes(job)) or 1) - counts.get("succeeded", 0)
        lacks_pods = counts.get("active", 0) < min(left, job["spec"].get("parallelism", 1))
        if lacks_pods and not is_ending(job) and (finding := pod_refusal(snapshot, job)):
            yield replace(finding, blocks=not counts.get("active"))
        yield from _array_failures(snapshot) if _indexes(job) else earlier_attempts(job, pods, _attempts(job))

    def warnings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield why earlier pods have failed; their logs are theirs to show."""
        yield from _disrupted(snapshot)
        if _indexes(snapshot.workload):
            yield from _array_failures(snapshot, self.main(snapshot.pods))
            return
        last, pods = self.main(snapshot.pods), counted(snapshot.workload, snapshot.pods)
        for finding in earlier_attempts(snapshot.workload, pods, _attempts(snapshot.workload)):
            if last is None or finding.subject != shown(last):
                yield replace(finding, log=())

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the pod of the last attempt; of an array, that of the last failed index that was not tried again."""
        if by_index := _newest(pods):
            pods = [pod for pod in by_index.values() if failure(pod)] or list(by_index.values())
        return max(pods, key=created, default=None)

    def indexes(self, workload: Object) -> range:
        """Return the indexes of an array."""
        return _indexes(workload)

    def indexed(self, pods: Sequence[Object]) -> Mapping[int, Object]:
        """Return the pods of an array."""
        return _newest(pods)

    def is_running(self, pods: Sequence[Object]) -> bool:
        """Whether the main container of any of the pods runs, or has just ended."""
        return any(super(Job, self).is_running([pod]) for pod in _newest(pods).values() or pods)


def _attempts(job: Object) -> int:
    """Return the number of pods that may fail (six retries are the default of Kubernetes)."""
    return 1 + int(job["spec"].get("backoffLimit", 6))


def _disrupted(snapshot: Snapshot) -> Iterator[Finding]:
    if count := disruptions(snapshot):
        what = "a pod was started again" if _indexes(snapshot.workload) else f"{_POD} was started again"
        yield disrupted(shown(snapshot.workload), what, count)


def _reason(snapshot: Snapshot, failed: Object) -> str:
    """Return why a Job has failed, in a sentence (k8s.io/api/batch/v1: JobReason)."""
    job = snapshot.workload
    spec, reason, message = job["spec"], failed.get("reason", ""), sentence(failed)
    indexes = status(job).get("failedIndexes", "")
    retries = _attempts(job) - 1
    sentences = {
        "BackoffLimitExceeded": (
            _failed_indexes(snapshot.pods, retries) if _indexes(job) else attempts_message(_POD, 1 + retries)
        ),
        "DeadlineExceeded": f"it took longer than its activeDeadlineSeconds of {spec.get('activeDeadlineSeconds')}",
        "PodFailurePolicy": f"its podFailurePolicy has ended it: {message}",
        "FailedIndexes": f"pods of these indexes have failed: {indexes}",
        "MaxFailedIndexesExceeded": (
            f"pods of more than {spec.get('maxFailedIndexes')} indexes (maxFailedIndexes) have failed: {indexes}"
        ),
    }
    return sentences.get(reason) or message or "the job has failed"


def _array_failures(snapshot: Snapshot, main: Object | None = None) -> Iterator[Finding]:
    """Yield why pods of an array have failed, all but `main`."""
    for pod in sorted(snapshot.pods, key=created):
        if pod is not main and (finding := failure(pod)):
            yield replace(finding, reason=RETRIED, blocks=False, log=finding.log[-LAST_LINES:] if main is None else ())


def _indexes(job: Object) -> range:
    """Return the indexes of an array; none for another Job."""
    spec = job["spec"]
    return range(int(spec.get("completions") or 0) if spec.get("completionMode") == "Indexed" else 0)


def _newest(pods: Iterable[Object]) -> dict[int, Object]:
    """Return the newest pod of each index that has any, in order of the indexes."""
    by_index = {_index(pod): pod for pod in sorted(pods, key=created)}
    return {index: by_index[index] for index in sorted(by_index) if index >= 0}


def _index(pod: Object) -> int:
    """Return the index of a pod; -1 for one that has none."""
    index = annotation(pod, INDEX_ANNOTATION) or ""
    return int(index) if re.fullmatch("[0-9]{1,10}", index) else -1


def _progress(job: Object) -> str:
    """Return the number of finished indexes, and of failed pods."""
    counts = status(job)
    failed = counts.get("failed", 0)
    done = f"{counts.get('succeeded', 0)} of {len(_indexes(job))} done"
    return f"{done}, {failed} failed" if failed else done


def _failed_indexes(pods: Sequence[Object], retries: int) -> str:
    """Return the failed indexes of an array whose Job has failed."""
    numbers = [index for index, pod in _newest(pods).items() if failure(pod)]
    if not numbers:
        return "one of its indexes has failed"
    which = f"index {numbers[0]} has" if len(numbers) == 1 else f"indexes {_ranges(numbers)} have"
    again = f", after {retries} retr{'ies' if retries > 1 else 'y'} of all indexes together" if retries else ""
    return f"{which} failed{again}"


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers in order as a person lists them: 0, 3-5."""
    groups = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
