"""Job in a cluster: one pod after the other until one succeeds, created by Kubernetes itself (batch/v1).

A Job is over when `Complete` or `Failed` is true. `SuccessCriteriaMet` and `FailureTarget` come before these, while the
pods are still taken away, and are no end (Kubernetes, pkg/controller/job/job_controller.go: delayTerminalCondition).
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from packager.kubernetes.objects import created, sentence, shown, status, true_condition
from packager.kubernetes.pods import LAST_LINES, failure
from packager.kubernetes.verdict import RETRIED, Finding, Phase, Verdict
from packager.workloads.controllers import (
    CONTROLLER_SILENCE,
    attempts_begun,
    attempts_message,
    counted,
    disrupted,
    disruptions,
    earlier_attempts,
    generated_prefix,
    ignored_by_controller,
    is_ending,
    is_past_deadline,
    not_retried,
    pod_refusal,
    replaces_pods,
    unreported_job_end,
)
from packager.workloads.job import array
from packager.workloads.workload import Role, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

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
    end_events: ClassVar[Mapping[str, Phase]] = {
        "Completed": Phase.SUCCEEDED,  # pkg/controller/job/job_controller.go
        "BackoffLimitExceeded": Phase.FAILED,
        "DeadlineExceeded": Phase.FAILED,
        "PodFailurePolicy": Phase.FAILED,
        "MaxFailedIndexesExceeded": Phase.FAILED,
        "FailedIndexes": Phase.FAILED,
    }

    def pod_labels(self, name: str, role: str) -> dict[str, str]:  # noqa: ARG002 - all pods are alike
        """Return the labels that the controller adds, without its uid (pkg/registry/batch/job/strategy.go)."""
        return {_JOB_NAME: name, f"batch.kubernetes.io/{_JOB_NAME}": name}

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
            if indexes := array.indexes(job):
                return Verdict(Phase.SUCCEEDED, f"all {len(indexes)} indexes have succeeded")
            return Verdict(Phase.SUCCEEDED, f"{_POD} has succeeded")
        failed = true_condition(job, "Failed")
        return None if failed is None else Verdict(Phase.FAILED, _reason(snapshot, failed))

    def attempts(self, snapshot: Snapshot) -> int | None:
        """Return the number of pods that the Job has made; None for an array, and others with several pods."""
        return attempts_begun(snapshot.workload)

    def progress(self, snapshot: Snapshot) -> str | None:
        """Return the progress of an array: the number of finished indexes."""
        return array.progress(snapshot.workload) if array.indexes(snapshot.workload) else None

    def unreported_end(self, snapshot: Snapshot) -> tuple[Verdict, datetime | None] | None:
        """Return how the last pod has ended, when the Job says nothing of it."""
        job = snapshot.workload
        if is_ending(job) or _is_suspended(job) or array.indexes(job):
            return None
        return unreported_job_end(shown(job), _POD, counted(job, snapshot.pods), _attempts(job))

    def stops_its_pods(self, snapshot: Snapshot) -> bool:
        """Whether a deadline or a suspension has."""
        return is_past_deadline(snapshot.workload) or _is_suspended(snapshot.workload)

    def replaces_pods(self, snapshot: Snapshot) -> bool:
        """Whether a retry is left: of an array, all indexes have them together."""
        job = snapshot.workload
        return not _is_suspended(job) and replaces_pods(job, counted(job, snapshot.pods), _attempts(job))

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the obstacles to creating the pod, and the failures of earlier pods."""
        job = snapshot.workload
        if _is_suspended(job):
            yield Finding("Suspended", shown(job), "suspended, by a queue or a user")
            return
        yield from _disrupted(snapshot)
        if array.indexes(job):
            yield from _array_findings(snapshot)
            return
        pods = counted(job, snapshot.pods)
        if not is_ending(job):
            is_made = status(job).get("active")
            unmade = None if is_made else pod_refusal(snapshot, job)
            yield from [unmade] if unmade else not_retried(snapshot, job, _POD, pods, _attempts(job))
            yield from ignored_by_controller(snapshot)
            if unreported_end := self.unreported_end(snapshot):
                verdict, since = unreported_end
                if since and snapshot.now - since > timedelta(seconds=CONTROLLER_SILENCE):
                    yield from verdict.findings
        yield from earlier_attempts(job, pods, _attempts(job))

    def warnings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield why earlier pods have failed; their logs are theirs to show."""
        yield from _disrupted(snapshot)
        if array.indexes(snapshot.workload):
            yield from _array_failures(snapshot, self.main(snapshot.pods))
            return
        last, pods = self.main(snapshot.pods), counted(snapshot.workload, snapshot.pods)
        for finding in earlier_attempts(snapshot.workload, pods, _attempts(snapshot.workload)):
            if last is None or finding.subject != shown(last):
                yield replace(finding, log=())

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the pod of the last attempt; of an array, that of the last failed index that was not tried again."""
        if by_index := array.newest(pods):
            pods = [pod for pod in by_index.values() if failure(pod)] or list(by_index.values())
        return max(pods, key=created, default=None)

    def indexes(self, workload: Object) -> range:
        """Return the indexes of an array."""
        return array.indexes(workload)

    def indexed(self, pods: Sequence[Object]) -> Mapping[int, Object]:
        """Return the pods of an array."""
        return array.newest(pods)

    def is_running(self, pods: Sequence[Object]) -> bool:
        """Whether the main container of any of the pods runs, or has just ended."""
        return any(super(Job, self).is_running([pod]) for pod in array.newest(pods).values() or pods)


def _attempts(job: Object) -> int:
    """Return the number of pods that may fail (six retries are the default of Kubernetes)."""
    return 1 + int(job["spec"].get("backoffLimit", 6))


def _disrupted(snapshot: Snapshot) -> Iterator[Finding]:
    if count := disruptions(snapshot):
        what = "a pod was started again" if array.indexes(snapshot.workload) else f"{_POD} was started again"
        yield disrupted(shown(snapshot.workload), what, count)


def _is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def _reason(snapshot: Snapshot, failed: Object) -> str:
    """Return why a Job has failed, in a sentence (k8s.io/api/batch/v1: JobReason)."""
    job = snapshot.workload
    spec, reason, message = job["spec"], failed.get("reason", ""), sentence(failed)
    indexes = status(job).get("failedIndexes", "")
    retries = _attempts(job) - 1
    sentences = {
        "BackoffLimitExceeded": (
            array.failed(snapshot.pods, retries) if array.indexes(job) else attempts_message(_POD, 1 + retries)
        ),
        "DeadlineExceeded": f"it took longer than its activeDeadlineSeconds of {spec.get('activeDeadlineSeconds')}",
        "PodFailurePolicy": f"its podFailurePolicy has ended it: {message}",
        "FailedIndexes": f"pods of these indexes have failed: {indexes}",
        "MaxFailedIndexesExceeded": (
            f"pods of more than {spec.get('maxFailedIndexes')} indexes (maxFailedIndexes) have failed: {indexes}"
        ),
    }
    return sentences.get(reason) or message or "the job has failed"


def _array_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the obstacles to creating an array's pods, and the failed pods."""
    job = snapshot.workload
    if not is_ending(job):
        if array.lacks_pods(job) and (finding := pod_refusal(snapshot, job)):
            yield replace(finding, blocks=not status(job).get("active"))
        yield from ignored_by_controller(snapshot)
    yield from _array_failures(snapshot)


def _array_failures(snapshot: Snapshot, main: Object | None = None) -> Iterator[Finding]:
    """Yield why pods of an array have failed, all but `main`."""
    for pod in sorted(snapshot.pods, key=created):
        if pod is not main and (finding := failure(pod)):
            yield replace(finding, reason=RETRIED, blocks=False, log=finding.log[-LAST_LINES:] if main is None else ())
