"""MPIJob in a cluster: a launcher Job and worker pods, created by mpi-operator (kubeflow.org/v2beta1).

The operator checks a job after it was applied, and reports what it refuses, or has no permission to create, in events
only: a job that never runs looks like one that has just been created (mpi-operator, mpi_job_controller.go).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import Manifest
from packager.kubernetes.objects import (
    created,
    is_being_deleted,
    labels,
    main_state,
    moment,
    name,
    shown,
    status,
    true_condition,
)
from packager.kubernetes.pods import killed_process, memory_limit
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding, Phase, Verdict
from packager.workloads import controllers
from packager.workloads.kinds import Operator, Role, Workload
from packager.workloads.structures import is_suspended
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


_LAUNCHER = "the launcher"

_JOB = "training.kubeflow.org/job-name"
_ROLE = "training.kubeflow.org/job-role"
_INDEX = "training.kubeflow.org/replica-index"


_IN_WORKERS = re.compile(
    r"processes were killed for taking more memory than their worker may, in:"
    r"(?P<workers>(?: [a-z0-9-]{1,63}){1,20})(?:, and (?P<more>\d{1,6}) more)?\s*"
)
"""The message of mpi-launcher.sh in the status of its pod; the workers are stopped when the launcher ends."""


# The digest is that of deploy/v2beta1/mpi-operator.yaml in the module github.com/kubeflow/mpi-operator@v0.8.0; the
# lease's time is that of cmd/mpi-operator/app/server.go there.
MPI_OPERATOR = Operator(
    short="mpi",
    name="mpi-operator",
    deployment="mpi-operator",
    lease="mpi-operator",
    lease_seconds=15,
    version="v0.8.0",
    url="https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.0/deploy/v2beta1/mpi-operator.yaml",
    sha256="b38def13a94abe60b2a4b3485239d77f64892b8fbd202e9e435a6031b7500a8f",
    kind="MPIJob",
    crd="mpijobs.kubeflow.org",
    api="kubeflow.org/v2beta1",
    edit_role="kubeflow-mpijobs-edit",
)


class MPIJob(Workload):
    """A workload of ranks on several nodes."""

    name = "MPIJob"
    resource = "mpijobs.kubeflow.org"
    name_label = _JOB
    operator = MPI_OPERATOR
    has_workers = True
    end_notice = 0
    unseen_refusal = ", or it rejected the job in an event that you are not allowed to see"
    named_children = ("jobs.batch/{name}-launcher",)

    def role(self, name: str, pod: str) -> Role | None:
        """Return the role of the pod of this name; the name of a launcher has five characters of the Job controller."""
        launcher, worker = re.escape(f"{name}-launcher-"), re.escape(f"{name}-worker-")
        if re.fullmatch(f"{launcher}[a-z0-9]{{5}}", pod):
            return "main"
        return "worker" if re.fullmatch(f"{worker}[0-9]+", pod) else None

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return the verdict from the conditions Succeeded and Failed."""
        job = snapshot.workload
        if true_condition(job, "Succeeded"):
            return Verdict(Phase.SUCCEEDED, f"{_LAUNCHER} has succeeded")
        failed = true_condition(job, "Failed")
        if failed is None:
            return None
        return Verdict(Phase.FAILED, _reason(job, failed))

    def attempts(self, snapshot: Snapshot) -> int | None:
        """Return the number of pods that the launcher's Job has made."""
        return next(map(controllers.attempts_begun, snapshot.children), None)

    def unreported_end(self, snapshot: Snapshot) -> tuple[Verdict, datetime | None] | None:
        """Return how the launcher's Job has ended, when the job itself does not say so."""
        for child in snapshot.children:
            if end := true_condition(child, "Complete") or true_condition(child, "Failed"):
                since = end.get("lastTransitionTime")
                message = f"{_LAUNCHER} has ended ({end['type']}), but mpi-operator has not updated the job yet"
                silence = Finding("OperatorSilent", shown(snapshot.workload), message, MPI_OPERATOR.start, blocks=False)
                if end["type"] == "Complete":
                    verdict = Verdict(Phase.SUCCEEDED, f"{_LAUNCHER} has succeeded", (silence,))
                else:
                    verdict = Verdict(Phase.FAILED, _reason(snapshot.workload, end), (silence,))
                return verdict, moment(since) if since else None
        return None

    def stops_its_pods(self, snapshot: Snapshot) -> bool:
        """Whether a deadline or a suspension has."""
        job = snapshot.workload
        return any(map(controllers.is_past_deadline, (job, *snapshot.children))) or is_suspended(job)

    def replaces_pods(self, snapshot: Snapshot) -> bool:
        """Whether a retry of the launcher is left: one that runs fails with the worker that it has lost.

        mpi-operator creates a deleted worker again (pkg/controller/mpi_job_controller.go: getOrCreateWorker).
        """
        job, launchers = snapshot.workload, _launchers(snapshot.pods)
        running = sum(status(pod).get("phase") == "Running" and not is_being_deleted(pod) for pod in launchers)
        attempts = _attempts(job) - running
        is_stopped = is_suspended(job) or is_being_deleted(job)
        return not is_stopped and any(controllers.replaces_pods(one, launchers, attempts) for one in snapshot.children)

    def obstacles(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield refusals of the operator, objects that it must not create, and the silence of controllers."""
        job = snapshot.workload
        refused = [event for event in snapshot.warnings(job) if event.get("reason") == "ValidationError"]
        if refused and not status(job).get("conditions"):
            message = refused[-1]["message"].removeprefix("Found validation errors: ")
            yield Finding(
                "ValidationError",
                shown(job),
                f"mpi-operator rejects the job: {message}",
                Remedy.of(Action.CORRECT_WORKLOAD),
                final_after=0,
            )
            return
        launchers, attempts = _launchers(snapshot.pods), _attempts(job)
        yield from _rejected_pods(snapshot)
        yield from controllers.earlier_attempts(next(iter(snapshot.children), job), launchers, attempts)

    def warnings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the workers in which the kernel killed a process, although the launcher succeeded."""
        launcher, job = self.main(snapshot.pods), name(snapshot.workload)
        ended = main_state(launcher).get("terminated") or {} if launcher else {}
        match = None if ended.get("exitCode") else _IN_WORKERS.fullmatch(str(ended.get("message")))
        limit = memory_limit(self.pod_template(snapshot.workload))
        unnamed_workers = int((match and match["more"]) or 0)
        for worker in match["workers"].split() if match else ():
            if self.role(job, worker) == "worker":  # the launcher's program may have written anything
                yield replace(killed_process(f"pod/{worker}", "it", limit, "the job"), others=unnamed_workers)
                unnamed_workers = 0

    def failures(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Explain a rank's end by signal 9: the launcher reports the signal, but not that memory was the reason."""
        limit = memory_limit(self.pod_template(snapshot.workload))
        for failed in super().failures(snapshot):
            is_kill = any("signal 9" in line or re.search(r"Exit code: +137", line) for line in failed.log)
            message = f"{failed.message}: a rank was killed, most often for using more memory than its worker may"
            remedy = Remedy.of(Action.RAISE_MEMORY_OF_ROLE, role="worker", limit=limit or "")
            yield replace(failed, message=message, remedy=remedy) if is_kill and limit else failed

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the launcher's pod of the last attempt."""
        return max(_launchers(pods), key=created, default=None)

    def workers(self, pods: Sequence[Object]) -> list[Object]:
        """Return the workers."""
        workers = [pod for pod in pods if labels(pod).get(_ROLE) == "worker"]
        return sorted(workers, key=lambda pod: int(labels(pod).get(_INDEX, "0")))


def _reason(job: Object, failed: Object) -> str:
    """Return the reason why a job has failed, from its own condition or from that of the launcher's Job."""
    text = str(failed.get("message", "")).strip(": ")
    # "Job has reached the specified backoff limit" means no more than that the launcher failed for the last time.
    if failed.get("reason", "").startswith("BackoffLimitExceeded") or "backoff limit" in text:
        return controllers.attempts_message(_LAUNCHER, _attempts(job))
    if "DeadlineExceeded" in failed.get("reason", ""):
        return "it took longer than its activeDeadlineSeconds"
    return text or "the job has failed"


def _launchers(pods: Sequence[Object]) -> list[Object]:
    return [pod for pod in pods if labels(pod).get(_ROLE) == "launcher"]


def _attempts(job: Object) -> int:
    """Return the maximum number of starts of the launcher."""
    return 1 + (job["spec"].get("runPolicy", {}).get("backoffLimit") or 0)


def _rejected_pods(snapshot: Snapshot) -> Iterator[Finding]:
    """Pods that the API server did not let the operator, or the launcher's Job, make: a quota, Pod Security."""
    job = snapshot.workload
    workers = sum(labels(pod).get(_ROLE) == "worker" for pod in snapshot.pods)
    wanted = sum(pods.count for pods in pods_of(Manifest(job)) if pods.computes)
    if workers < wanted and (finding := controllers.pod_refusal(snapshot, job)):
        yield finding
        return
    for child in snapshot.children:
        if status(child).get("active") or controllers.is_ending(child):
            continue
        if finding := controllers.pod_refusal(snapshot, child):
            yield finding
