"""JobSet in a cluster: roles of pods on several nodes, one Indexed Job per role (jobset.x-k8s.io/v1alpha2).

A JobSet is over when `Completed` or `Failed` is true. Before that, the Job of a pod that has failed takes its other
pods away, and these may take long to stop: when no retry is left, or the exit code is permanent, its end is certain as
soon as one Job is to fail (`FailureTarget`), and there is no need to wait for the rest.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.kubernetes.kubectl.refusals import refusal
from packager.kubernetes.manifest import at, listing, mapping
from packager.kubernetes.objects import (
    condition,
    is_being_deleted,
    is_running,
    labels,
    moment,
    name,
    sentence,
    shown,
    status,
    true_condition,
)
from packager.kubernetes.pods import LAST_LINES
from packager.kubernetes.verdict import RETRIED, Finding, Phase, Verdict
from packager.workloads import controllers
from packager.workloads.controllers import disrupted, is_disrupted
from packager.workloads.jobset import attempts
from packager.workloads.jobset.attempts import lost
from packager.workloads.jobset.structure import least_nodes, replaces_single_pods
from packager.workloads.kinds import Operator, Role, Workload
from packager.workloads.pods import number_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


_MOST_STOPPED = 8
"""The number of other pods whose last lines are shown."""

_PERMANENT = re.compile(r" failed with exit code (\d+) matching FailJob rule")
"""The reason of a Job that its podFailurePolicy has ended (pkg/controller/job/pod_failure_policy.go)."""

_FAIL = "FailJobSet"

_DISRUPTED = "has condition DisruptionTarget matching FailJob rule"
"""The message of a Job that a disrupted pod has ended; the pattern of our rule (pkg/controller/job)."""

_POD_FAILED = "BackoffLimitExceeded"
"""The reason of a Job whose pod has failed, when none of its own rules applies (k8s.io/api/batch/v1)."""

_UNMADE = ("JobCreationFailed", "HeadlessServiceCreationFailed", "PVCCreationFailed")


# The manifest is what `kustomize build config/default` makes of the module sigs.k8s.io/jobset@v0.12.0, with the image
# of the release: tests/e2e/test_operator.py renders it, to the byte, and installs it. The controller makes the
# certificate of its webhooks itself (internalCertManagement). The name of its lease is in
# api/config/v1alpha1/defaults.go there; how long it holds is controller-runtime's.
JOBSET = Operator(
    short="jobset",
    name="JobSet",
    deployment="jobset-controller-manager",
    lease="6d4f6a47.jobset.x-k8s.io",
    lease_seconds=15,
    version="v0.12.0",
    url="https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml",
    sha256="a41aaf12dd0b7b0a3d626b8d6107f32c3dc889d7e7830adc46b8cdb77a8963bb",
    kind="JobSet",
    crd="jobsets.jobset.x-k8s.io",
    api="jobset.x-k8s.io/v1alpha2",
    edit_role=None,
)


class JobSet(Workload):
    """A workload of pods that find each other by name."""

    name = "JobSet"
    resource = "jobsets.jobset.x-k8s.io"
    name_label = attempts.JOBSET
    operator = JOBSET
    has_workers = True
    restarts_pods = True
    owned = ("jobs.batch",)

    def role(self, name: str, pod: str) -> Role | None:
        """Return "worker" for a pod of the set: its name ends in the indices of its Job and its own, and five more."""
        return "worker" if re.fullmatch(rf"{re.escape(name)}-.+-[0-9]+-[0-9]+-[a-z0-9]{{5}}", pod) else None

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return the verdict from the conditions Completed and Failed, or from the certainty that Failed follows."""
        jobset = snapshot.workload
        if true_condition(jobset, "Completed"):
            return Verdict(Phase.SUCCEEDED, _ended_well(jobset))
        failed, failing = true_condition(jobset, "Failed"), _failing(snapshot)
        is_replaced = _is_replaced(snapshot)
        if failed is None and (is_replaced or not _is_end(jobset, failing)):
            return None
        losses = tuple(lost(snapshot, failing))
        return Verdict(Phase.FAILED, _reason(snapshot, failed, losses), losses)

    def attempts(self, snapshot: Snapshot) -> int | None:
        """Return the number of times that all pods were started together."""
        attempt = _attempt(snapshot.workload)
        has_begun = attempt > 1 or snapshot.pods or any(status(job).get("startTime") for job in snapshot.children)
        return attempt if has_begun else None

    def unreported_end(self, snapshot: Snapshot) -> tuple[Verdict, datetime | None] | None:
        """Return success if all Jobs of the success policy are complete, and JobSet does not report it."""
        jobset, targets = snapshot.workload, _targets(snapshot.workload)
        complete = {labels(job).get(attempts.ROLE): true_condition(job, "Complete") for job in snapshot.children}
        ends = [end for role in targets if (end := complete.get(role))]
        is_noticed = any(true_condition(jobset, kind) for kind in ("Completed", "Failed"))
        if is_noticed or len(ends) < len(targets):
            return None
        times = [moment(end["lastTransitionTime"]) for end in ends if end.get("lastTransitionTime")]
        message = f"{_ended_well(jobset)}, but JobSet has not noticed yet"
        silence = Finding("OperatorSilent", shown(jobset), message, JOBSET.start, blocks=False)
        return Verdict(Phase.SUCCEEDED, _ended_well(jobset), (silence,)), max(times, default=None)

    def stops_its_pods(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - whatever is in it
        """Return true for the failed pod; pods lost earlier are reported at the end."""
        return True

    def is_superseded(self, pod: Object, snapshot: Snapshot) -> bool:  # noqa: ARG002 - any pod but those that run
        """Whether the set works without the pod: the first one runs, and with it as many as it needs."""
        least = least_nodes(snapshot.workload)
        running = [one for one in attempts.current(snapshot.pods) if status(one).get("phase") == "Running"]
        return least is not None and len(running) >= least and any(map(attempts.is_first, running))

    def replaces_pods(self, snapshot: Snapshot) -> bool:
        """Whether the failure of a pod makes JobSet start all pods again, or its Job the one that has failed."""
        jobset = snapshot.workload
        is_stopped = jobset["spec"].get("suspend") or is_being_deleted(jobset)
        reasons = [rule.get("onJobFailureReasons") for rule in _rules(jobset) if rule.get("action") == _FAIL]
        is_permanent = any(not one or _POD_FAILED in listing(one) for one in reasons)
        if is_stopped:
            return False
        is_remade = _is_replaced(snapshot) or replaces_single_pods(jobset)
        return is_remade or (not is_permanent and _attempt(jobset) < _attempts(jobset))

    def obstacles(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield objects that JobSet or a Job must not create, silent controllers, and restarts of the set."""
        yield from _unmade(snapshot)
        yield from _restarted(snapshot)

    def pods_about_to_go(self, snapshot: Snapshot) -> Sequence[Object]:
        """Return the pods of the last attempt, as soon as one of them has failed, or was taken away."""
        pods = attempts.current(snapshot.pods)
        return pods if attempts.failures(snapshot) or any(map(is_being_deleted, pods)) else ()

    def warnings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the failures of earlier attempts, and the last lines of pods that were stopped because of them."""
        yield from _restarted(snapshot)
        if not true_condition(snapshot.workload, "Completed"):
            yield from _last_lines(snapshot)

    def failures(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the failures of pods of the last attempt, the root cause first."""
        for pod, finding in attempts.failures(snapshot):
            yield replace(finding, message=f"{attempts.who(pod)}: {finding.message}")

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the first pod of the role that leads, in the last attempt; None while it does not exist."""
        return next(filter(attempts.is_first, attempts.current(pods)[:1]), None)

    def workers(self, pods: Sequence[Object]) -> list[Object]:
        """Return the pods that compute."""
        return [pod for pod in attempts.current(pods) if attempts.computes(pod)]

    def listed(self, pods: Sequence[Object]) -> list[Object]:
        """Return all pods of the last attempt, with those of the leading role first."""
        return attempts.current(pods)


def _targets(jobset: Object) -> list[str]:
    """Return the roles whose pods must all succeed; an empty list means all roles to JobSet."""
    spec = jobset["spec"]
    names = listing(at(spec, ("successPolicy", "targetReplicatedJobs")))
    return [str(name) for name in names or (mapping(job).get("name") for job in listing(spec.get("replicatedJobs")))]


def _ended_well(jobset: Object) -> str:
    if replaces_single_pods(jobset):
        return f"{' and '.join(f'{role} 0' for role in _targets(jobset))} has succeeded"
    return f"all pods of {' and '.join(_targets(jobset))} have succeeded"


def _attempts(jobset: Object) -> int:
    """Return the maximum number of attempts; one that followed a disruption does not count."""
    return 1 + int(mapping(jobset["spec"].get("failurePolicy")).get("maxRestarts") or 0) + _disruptions(jobset)


def _disruptions(jobset: Object) -> int:
    """Return how often all pods were started again after a disruption (pkg/controllers/failure_policy.go)."""
    if not any(map(_is_for_disruptions, _rules(jobset))):
        return 0
    return int(status(jobset).get("restarts") or 0) - int(status(jobset).get("restartsCountTowardsMax") or 0)


def _is_for_disruptions(rule: Object) -> bool:
    """Whether the rule starts all pods again after a disruption, without counting it."""
    patterns = listing(rule.get("onJobFailureMessagePatterns"))
    return rule.get("action") == "RestartJobSetAndIgnoreMaxRestarts" and patterns == [_DISRUPTED]


def _rules(jobset: Object) -> list[Object]:
    """Return the rules of the failure policy."""
    return [dict(mapping(rule)) for rule in listing(mapping(jobset["spec"].get("failurePolicy")).get("rules"))]


def _is_end(jobset: Object, failing: Sequence[Object]) -> bool:
    """Whether failed Jobs make the set fail; rules that start it again may not count towards the attempts.

    While a Job still takes its pods away, another one may fail for a reason for which JobSet starts all again.
    """
    spec = jobset["spec"]
    rules = [rule for rule in _rules(jobset) if not _is_for_disruptions(rule)]
    if len(rules) < len(_rules(jobset)) and any(_DISRUPTED in sentence(end) for end in _ends(failing)):
        return False
    if all(rule.get("action") == _FAIL for rule in rules) and _attempt(jobset) >= _attempts(jobset):
        return bool(failing)
    first = rules[0] if rules else {}
    is_for_all = not first.get("targetReplicatedJobs") and not first.get("onJobFailureMessagePatterns")
    has_one_job = sum(number_of_pods(mapping(job).get("replicas")) for job in listing(spec.get("replicatedJobs"))) == 1
    reasons = {end.get("reason") for end in _ends(failing)}
    return (
        first.get("action") == _FAIL
        and is_for_all
        and has_one_job
        and not reasons.isdisjoint(listing(first.get("onJobFailureReasons")))
    )


def _is_replaced(snapshot: Snapshot) -> bool:
    """Whether a pod of the last attempt is disrupted, so that JobSet may start all pods again without counting it."""
    pods = attempts.current(snapshot.pods)
    return any(map(_is_for_disruptions, _rules(snapshot.workload))) and any(map(is_disrupted, pods))


def _ends(failing: Sequence[Object]) -> list[Object]:
    """Return the conditions that say that these Jobs have failed, or are to."""
    ends = (true_condition(job, kind) for job in failing for kind in controllers.FAILING)
    return [end for end in ends if end]


def _attempt(jobset: Object) -> int:
    """Return the number of the current or last attempt, from 1."""
    return 1 + int(status(jobset).get("restarts") or 0)


def _failing(snapshot: Snapshot) -> list[Object]:
    """Return the Jobs of the last attempt that have failed, or are certain to."""
    restarts = str(status(snapshot.workload).get("restarts") or 0)
    jobs = [job for job in snapshot.children if labels(job).get(attempts.ATTEMPT, restarts) == restarts]
    return [job for job in jobs if any(true_condition(job, kind) for kind in controllers.FAILING)]


def _reason(snapshot: Snapshot, failed: Object | None, losses: Sequence[Finding]) -> str:
    """Return why a set has failed: its own condition names no more than a Job."""
    jobset = snapshot.workload
    last = _when(snapshot)
    late = [job for job in _failing(snapshot) if controllers.is_past_deadline(job)]
    if late:
        return f"it took longer than its activeDeadlineSeconds of {late[0]['spec'].get('activeDeadlineSeconds')}{last}"
    if losses:
        return f"{losses[0].message}{last}"
    for pod, finding in attempts.failures(snapshot):
        return f"{attempts.who(pod)}: {finding.message}{last}"
    return sentence(failed or {}) or f"{shown(jobset)} has failed"


def _when(snapshot: Snapshot) -> str:
    """Return in which of several attempts a set has failed, and why no other one follows."""
    jobset = snapshot.workload
    number, attempt = _attempts(jobset), _attempt(jobset)
    if attempt >= number:
        return f", in the last of {number} attempts" if number > 1 else ""
    conditions = [sentence(end) for end in _ends(_failing(snapshot)) if end.get("reason") == "PodFailurePolicy"]
    code = next((match[1] for text in conditions if (match := _PERMANENT.search(text))), None)
    why = f"exit code {code} is permanent" if code else "a rule of its failurePolicy ends it"
    return f", in attempt {attempt} of {number}: {why}"


def _unmade(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the refusals of the API server to create objects for JobSet or a Job: a quota, Pod Security."""
    jobset = snapshot.workload
    if not snapshot.children:
        for event in reversed(snapshot.warnings(jobset)):
            if event.get("reason") in _UNMADE:
                message = sentence(event)
                yield refusal(shown(jobset), message) or Finding(str(event["reason"]), shown(jobset), message)
                return
    least = least_nodes(jobset)
    running = sum(map(is_running, attempts.current(snapshot.pods)))
    for job in snapshot.children:
        counts, wanted = status(job), int(job["spec"].get("parallelism") or 1)
        if int(counts.get("active") or 0) + int(counts.get("succeeded") or 0) >= wanted or controllers.is_ending(job):
            continue
        if finding := controllers.pod_refusal(snapshot, job):
            yield replace(finding, blocks=least is None or running < least)


def _restarted(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield why earlier attempts failed: from their pods, if they were observed, else from the set itself."""
    jobset = snapshot.workload
    restarts, number = int(status(jobset).get("restarts") or 0), _attempts(jobset)
    count = _disruptions(jobset)
    if count:
        yield disrupted(shown(jobset), "all pods were started again", count)
    for attempt in range(restarts):
        pods = tuple(log.pod for log in snapshot.logs if attempts.attempt(log.pod) == attempt)
        for pod, finding in attempts.failures(replace(snapshot, pods=pods))[:1]:
            message = f"attempt {attempt + 1} of {number}: {attempts.who(pod)}: {finding.message}"
            lines = attempts.without_torchrun(finding.log)[-LAST_LINES:]
            yield Finding(RETRIED, finding.subject, message, finding.remedy, blocks=False, log=lines)
            break
        else:
            if count == restarts:
                continue
            job = re.search(r"first failed job: ([^ )]+)", sentence(condition(jobset, "RestartingJobSet") or {}))
            why = f": {job[1]} had failed" if job and attempt == restarts - 1 else ""
            end = "ended early" if count else "failed"
            message = f"attempt {attempt + 1} of {number} has {end}, and all pods were started again{why}"
            yield Finding(RETRIED, shown(jobset), message, blocks=False)


def _last_lines(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the last lines of those pods of the last attempt that were stopped because another one had failed."""
    failed = {finding.subject for _, finding in attempts.failures(snapshot)}
    restarts = int(status(snapshot.workload).get("restarts") or 0)
    pods = attempts.current([log.pod for log in snapshot.logs if attempts.attempt(log.pod) == restarts])
    ended_well = {name(pod) for pod in snapshot.pods if status(pod).get("phase") == "Succeeded"}
    unexplained = [pod for pod in pods if shown(pod) not in failed and name(pod) not in ended_well]
    stopped = [pod for pod in unexplained if attempts.kept_lines(snapshot, pod) or is_running(pod)]
    for pod in stopped[:_MOST_STOPPED]:
        kept = attempts.kept_lines(snapshot, pod)
        rest = "its last lines:" if kept else "its log is empty, or was deleted before it could be read"
        message = f"{attempts.who(pod)} was stopped; {rest}"
        lines = attempts.without_torchrun(kept)[-LAST_LINES:]
        yield Finding("Stopped", shown(pod), message, blocks=False, log=lines)
