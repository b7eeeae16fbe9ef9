"""MPIJob: a launcher Job and worker pods, made by mpi-operator (kubeflow.org/v2beta1).

The operator checks a job when it meets it, not when it is applied, and tells of what it refuses, or may not make, in
events only: a job that never runs looks like one that has just been made (mpi-operator, mpi_job_controller.go).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.cluster.engines.base import Engine
from packager.cluster.objects import concerning, created, holds, labels, shown, status
from packager.cluster.pods import LAST_LINES, failure, memory_limit
from packager.cluster.refusals import refusal
from packager.cluster.verdict import Finding, Phase, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.objects import Object
    from packager.cluster.snapshot import Snapshot

OPERATOR_SILENCE = 8.0
"""Seconds in which a living operator has said something about a job; it usually takes less than one."""

_JOB = "training.kubeflow.org/job-name"
_ROLE = "training.kubeflow.org/job-role"
_INDEX = "training.kubeflow.org/replica-index"


class MPIJob(Engine):
    """A workload of ranks on several nodes."""

    kind = "MPIJob"
    resource = "mpijobs.kubeflow.org"
    operator = "mpi-operator"
    has_workers = True

    def children(self, name: str) -> tuple[str, ...]:
        """Return the launcher's Job."""
        return (f"jobs.batch/{name}-launcher",)

    def makes(self, workload: Object) -> tuple[str, ...]:
        """Return the launcher's Job, what the pods mount, their Service, and the workers (mpi_job_controller.go)."""
        name = workload["metadata"]["name"]
        count = workload["spec"]["mpiReplicaSpecs"].get("Worker", {}).get("replicas", 0)
        workers = [f"pods/{name}-worker-{index}" for index in range(count)]
        return (*self.children(name), f"secrets/{name}-ssh", f"configmaps/{name}-config", f"services/{name}", *workers)

    def selector(self, name: str) -> str:
        """Return the label that the operator gives the launcher's pods and the workers."""
        return f"{_JOB}={name}"

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return what the conditions Succeeded and Failed say."""
        job = snapshot.workload
        if holds(job, "Succeeded"):
            return Verdict(Phase.SUCCEEDED, "the launcher has ended well")
        failed = holds(job, "Failed")
        if failed is None:
            return None
        said = failed.get("message", "").strip(": ")
        # "Job has reached the specified backoff limit" means no more than that the launcher failed for the last time.
        attempts = 1 + (job["spec"].get("runPolicy", {}).get("backoffLimit") or 0)
        if failed.get("reason", "").startswith("BackoffLimitExceeded") or "backoff limit" in said:
            said = "the launcher has failed" + (f" in each of {attempts} attempts" if attempts > 1 else "")
        elif "DeadlineExceeded" in failed.get("reason", ""):
            said = "it took longer than its activeDeadlineSeconds"
        return Verdict(Phase.FAILED, said or "the job has failed")

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield what the operator has refused, what it may not make, and that nobody acts on the job."""
        job = snapshot.workload
        refused = [event for event in snapshot.warnings(job) if event.get("reason") == "ValidationError"]
        if refused and not status(job).get("conditions"):
            said = refused[-1]["message"].removeprefix("Found validation errors: ")
            yield Finding(
                "ValidationError",
                shown(job),
                f"mpi-operator refuses the job: {said}",
                "correct the job in the overlay, then deploy it with --replace",
                final_after=0,
            )
            return
        if _is_suspended(job):
            yield Finding("Suspended", shown(job), "suspended: a queue, or a person, holds it back")
            return
        yield from _unmade(snapshot)
        yield from _unattended(snapshot)
        yield from _earlier_attempts(snapshot)

    def explain(self, failed: Finding, snapshot: Snapshot) -> Finding:
        """Say what a rank's end by signal 9 means: the launcher knows of it, and not that memory was the reason."""
        killed = any("signal 9" in line or re.search(r"Exit code: +137", line) for line in failed.log)
        limit = memory_limit(self.pod_template(snapshot.workload))
        if not (killed and limit):
            return failed
        message = f"{failed.message}: a rank was killed, most often for taking more memory than its worker may"
        return replace(
            failed, message=message, hint=f"each worker may take {limit}: raise limits.memory in the overlay"
        )

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the launcher's pod: that of the last attempt."""
        launchers = [pod for pod in pods if labels(pod).get(_ROLE) == "launcher"]
        return max(launchers, key=created, default=None)

    def workers(self, pods: Sequence[Object]) -> list[Object]:
        """Return the workers."""
        found = [pod for pod in pods if labels(pod).get(_ROLE) == "worker"]
        return sorted(found, key=lambda pod: int(labels(pod).get(_INDEX, "0")))

    def pod_template(self, workload: Object) -> Object:
        """Return the worker's."""
        return dict(workload["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"])


def _is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("runPolicy", {}).get("suspend"))


def _unmade(snapshot: Snapshot) -> Iterator[Finding]:
    """Pods that the API server did not let the operator, or the launcher's Job, make: a quota, Pod Security."""
    job = snapshot.workload
    wanted = job["spec"]["mpiReplicaSpecs"].get("Worker", {}).get("replicas", 0)
    there = sum(labels(pod).get(_ROLE) == "worker" for pod in snapshot.pods)
    if there < wanted and (found := _refused(snapshot, job)):
        yield found
        return
    for child in snapshot.children:
        counts = status(child)
        if not any(counts.get(key) for key in ("active", "succeeded", "failed")) and (
            found := _refused(snapshot, child)
        ):
            yield found


def _refused(snapshot: Snapshot, item: Object) -> Finding | None:
    for event in reversed(snapshot.warnings(item)):
        if found := refusal(shown(item), event.get("message", "")):
            return found
    return None


def _unattended(snapshot: Snapshot) -> Iterator[Finding]:
    job = snapshot.workload
    hint = "is mpi-operator running? kubectl get pods --all-namespaces | grep mpi-operator"
    if not status(job).get("conditions") and not snapshot.children and not snapshot.pods:
        if snapshot.age >= OPERATOR_SILENCE and not concerning(snapshot.events, job):
            yield Finding("OperatorSilent", shown(job), "nobody acts on it: its operator is not there, or away", hint)
        return
    for child in snapshot.children:
        ended = holds(child, "Complete") or holds(child, "Failed")
        if ended:
            message = f"the launcher has ended ({ended['type']}), and the operator has not taken notice yet"
            yield Finding("OperatorSilent", shown(job), message, hint, blocks=False)


def _earlier_attempts(snapshot: Snapshot) -> Iterator[Finding]:
    limit = snapshot.workload["spec"].get("runPolicy", {}).get("backoffLimit") or 0
    launchers = [pod for pod in sorted(snapshot.pods, key=created) if labels(pod).get(_ROLE) == "launcher"]
    for attempt, pod in enumerate(launchers[:limit], start=1):
        if found := failure(pod):
            again = f"attempt {attempt} of {limit + 1}: {found.message}"
            yield Finding("Retried", found.subject, again, found.hint, blocks=False, log=found.log[-LAST_LINES:])
