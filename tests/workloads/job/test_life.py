"""The verdicts on a Job: its phase, and the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.past import Memory, Past
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Finding, Phase, Verdict
from packager.workloads.job.life import Job
from tests.fake_cluster import Object, item

NAME = "hello-mpi-one-job"
BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
KIND = Job()
RUNNING = {"running": {"startedAt": "2026-11-21T00:00:02Z"}}


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def job(*conditions: str, spec: Object | None = None, **status: Any) -> Object:
    """Return the Job; a condition is its type, or type and reason, or these and a message."""
    condition_list = [
        dict(zip(("type", "reason", "message"), descriptions.split(":", 2), strict=False))
        for descriptions in conditions
    ]
    job_status = (
        {"conditions": [{"status": "True", **condition} for condition in condition_list], **status}
        if status or condition_list
        else {}
    )
    metadata = {"creationTimestamp": at(0)}
    return item("Job", NAME, metadata=metadata, spec={"backoffLimit": 0, **(spec or {})}, status=job_status)


def pod(state: Object = RUNNING, *, attempt: int = 1, phase: str = "Running", **metadata: Any) -> Object:
    """Return the pod of an attempt."""
    containers = [{"name": "main", "image": "a:1", "state": state, "restartCount": 0}]
    return item(
        "Pod",
        f"{NAME}-abcd{attempt}",
        metadata={"creationTimestamp": at(attempt * 20), "labels": {"job-name": NAME}, **metadata},
        spec={"containers": [{"name": "main", "image": "a:1"}]},
        status={"phase": phase, "containerStatuses": containers},
    )


def failed(attempt: int = 1, log: str = "no such file\n") -> Object:
    """Return the pod of an attempt that has failed."""
    end = {"exitCode": 3, "reason": "Error", "message": log, "finishedAt": at(attempt * 20 + 5)}
    return pod({"terminated": end}, attempt=attempt, phase="Failed")


def succeeded(attempt: int = 1) -> Object:
    """Return the pod of an attempt that has succeeded."""
    end = {"exitCode": 0, "reason": "Completed", "finishedAt": at(attempt * 20 + 5)}
    return pod({"terminated": end}, attempt=attempt, phase="Succeeded")


def warning(message: str, second: float = 1, reason: str = "FailedCreate") -> Object:
    """Return a warning about the Job."""
    about = {"kind": "Job", "name": NAME, "uid": f"Job-{NAME}"}
    metadata = {"name": f"event-{second}", "creationTimestamp": at(second)}
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": about, "metadata": metadata}


def judged(workload: Object, *pods: Object, age: float = 30, events: tuple[Object, ...] = ()) -> Verdict:
    return diagnose(KIND, Snapshot(workload, (), pods, events, age), Past())


def test_job_runs_while_its_pods_are_being_stopped() -> None:
    for condition in ["SuccessCriteriaMet:CompletionsReached", "FailureTarget:BackoffLimitExceeded"]:
        going = pod(deletionTimestamp=at(30), deletionGracePeriodSeconds=30)
        assert judged(job(condition), going, age=300).phase is Phase.RUNNING
        assert KIND.unreported_end(Snapshot(job(condition), (), (succeeded(),), (), 300)) is None


def test_failed_job_explains_each_reason_in_a_sentence() -> None:
    for condition, spec, sentence in [
        ("BackoffLimitExceeded:Job has reached the specified backoff limit", {}, "the pod has failed"),
        (
            "BackoffLimitExceeded:Job has reached the specified backoff limit",
            {"backoffLimit": 2},
            "the pod has failed in each of 3 attempts",
        ),
        (
            "DeadlineExceeded:Job was active longer than specified deadline",
            {"activeDeadlineSeconds": 60},
            "it took longer than its activeDeadlineSeconds of 60",
        ),
        (
            "PodFailurePolicy:Container main for pod team/a failed with exit code 3",
            {},
            "its podFailurePolicy has ended it: Container main for pod team/a failed with exit code 3",
        ),
        ("FailedIndexes:Job has failed indexes", {}, "pods of these indexes have failed: 1,3"),
        (
            "MaxFailedIndexesExceeded:Job has exceeded the specified maximal number of failed indexes",
            {"maxFailedIndexes": 1},
            "pods of more than 1 indexes (maxFailedIndexes) have failed: 1,3",
        ),
        ("Unheard:a reason of another year", {}, "a reason of another year"),
        ("", {}, "the job has failed"),
    ]:
        verdict = judged(job(f"Failed:{condition}", spec=spec, failedIndexes="1,3"))
        assert verdict == Verdict(Phase.FAILED, sentence)


def test_failed_job_shows_last_pod_and_failures_of_earlier_pods() -> None:
    workload = job("Failed:BackoffLimitExceeded", spec={"backoffLimit": 1})
    verdict = judged(workload, failed(2), failed(1, "out of disk\n"), age=60)
    message = "container main ended with exit code 3"
    assert verdict.summary == "the pod has failed in each of 2 attempts"
    assert verdict.findings == (
        Finding("Error", f"pod/{NAME}-abcd2", message, log=("no such file",), container="main"),
        Finding("Retried", f"pod/{NAME}-abcd1", f"attempt 1 of 2: {message}", blocks=False),
    )


def test_successful_job_reports_failed_first_attempt() -> None:
    verdict = judged(job("Complete", spec={"backoffLimit": 2}), failed(1), succeeded(2))
    assert (verdict.phase, [finding.reason for finding in verdict.findings]) == (Phase.SUCCEEDED, ["Retried"])


def test_suspended_job_is_stuck() -> None:
    verdict = judged(job("Suspended:JobSuspended:Job suspended", spec={"suspend": True}), age=300)
    assert verdict == Verdict(
        Phase.STUCK,
        "suspended, by a queue or a user",
        (Finding("Suspended", f"job/{NAME}", "suspended, by a queue or a user"),),
    )


def test_pods_deleted_by_deadline_or_suspension_are_not_lost() -> None:
    going = pod(deletionTimestamp=at(60), deletionGracePeriodSeconds=30)
    late = judged(job("Failed:DeadlineExceeded", spec={"activeDeadlineSeconds": 10}), going)
    assert late == Verdict(Phase.FAILED, "it took longer than its activeDeadlineSeconds of 10")
    held = judged(job(spec={"suspend": True}), going)
    assert [finding.reason for finding in held.findings] == ["Suspended"]


REFUSED = {
    "QuotaExceeded": (
        'Error creating: pods "x" is forbidden: exceeded quota: full, requested: pods=1, used: pods=1, limited: pods=1',
        "the quota full of the namespace does not allow another pod: asked for pods=1, used pods=1 of pods=1",
    ),
    "PodSecurity": (
        'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
        "the namespace enforces Pod Security restricted:latest, and the pods violate it: runAsNonRoot != true",
    ),
    "LimitRange": (
        'Error creating: pods "x" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi',
        'pods "x" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi',
    ),
}


def test_job_reports_event_of_a_refused_pod() -> None:
    for reason, (event, message) in REFUSED.items():
        verdict = judged(job(startTime=at(0)), events=(warning(event),))
        assert (verdict.phase, verdict.summary) == (Phase.STUCK, message)
        assert [(finding.reason, finding.subject) for finding in verdict.findings] == [(reason, f"job/{NAME}")]


def test_refusal_is_ignored_after_a_pod_was_created() -> None:
    made = {**warning("Created pod: x", 5, "SuccessfulCreate"), "type": "Normal"}
    events = (warning(REFUSED["QuotaExceeded"][0]), made)
    assert judged(job(startTime=at(0), active=0), pod(), events=events).phase is Phase.RUNNING


def test_job_without_controller_is_stuck_after_eight_seconds() -> None:
    assert judged(job(), age=5) == Verdict(Phase.PENDING, "no pods yet")
    verdict = judged(job(), age=9)
    message = "no controller has reacted: the Job controller is not running"
    hint = "is kube-controller-manager running? kubectl get pods --namespace=kube-system"
    (finding,) = verdict.findings
    assert (verdict.phase, verdict.summary, finding.reason) == (Phase.STUCK, message, "ControllerSilent")
    assert (finding.subject, finding.message, finding.hint) == (f"job/{NAME}", message, hint)


def test_job_fails_after_deletion_of_its_pod() -> None:
    about = {"kind": "Pod", "name": f"{NAME}-abcd1", "uid": "gone"}
    made = {**warning(f"Created pod: {NAME}-abcd1", 2, "SuccessfulCreate"), "type": "Normal"}
    killing = {**warning("Stopping container main", 20, "Killing"), "type": "Normal", "involvedObject": about}
    verdict = judged(job("Failed:BackoffLimitExceeded"), events=(made, killing))
    assert (verdict.phase, verdict.summary) == (
        Phase.FAILED,
        f"pod/{NAME}-abcd1: it was deleted, which stopped it",
    )


def test_pod_names_determine_roles() -> None:
    for name, pod_name, role in [
        ("a", "a-x2f9k", "main"),
        ("a", "a-b-x2f9k", None),
        ("a", "a", None),
        ("a" * 63, f"{'a' * 58}x2f9k", "main"),
        ("a.b", "acb-x2f9k", None),
    ]:
        assert KIND.role(name, pod_name) == role


def test_attempts_count_pods_of_the_job() -> None:
    spec: Any
    status: Any
    for spec, status, attempts in [
        ({}, {}, None),
        ({}, {"active": 1}, 1),
        ({}, {"active": 0, "uncountedTerminatedPods": {"failed": ["u1"]}}, 1),
        ({}, {"failed": 1}, 1),
        ({}, {"failed": 1, "active": 1, "uncountedTerminatedPods": {}}, 2),
        ({"completions": 1, "parallelism": 1}, {"failed": 2, "succeeded": 1}, 3),
        ({"completions": 4, "parallelism": 2}, {"failed": 1, "active": 2}, None),
        ({"parallelism": 2}, {"active": 2}, None),
    ]:
        assert KIND.attempts(Snapshot(job(spec=spec, **status))) == attempts


WAIT = f"wait: job/{NAME} replaces the pod by itself"
AGAIN = "deploy it again with --replace"
EVICTION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "x"}
POLICY = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def evicted(attempt: int = 1) -> Object:
    """Return the pod of an attempt that was evicted, and has yet to stop."""
    going = pod(attempt=attempt, deletionTimestamp=at(60), deletionGracePeriodSeconds=30)
    going["status"]["conditions"] = [EVICTION]
    return going


def test_evicted_pod_has_hint_to_wait_while_a_retry_is_left() -> None:
    conditions: list[str]
    spec: Any
    status: Any
    for conditions, spec, status, hint in [
        ([], {"backoffLimit": 1}, {"failed": 1}, WAIT),
        ([], {"backoffLimit": 1}, {"uncountedTerminatedPods": {"failed": ["u1"]}}, WAIT),
        ([], {"backoffLimit": 1}, {"active": 1}, WAIT),
        ([], {"backoffLimit": 1}, {"failed": 2}, AGAIN),
        ([], {"backoffLimit": 0}, {"failed": 1}, AGAIN),
        (["FailureTarget:PodFailurePolicy"], {"backoffLimit": 1, "podFailurePolicy": POLICY}, {"failed": 1}, AGAIN),
    ]:
        (finding, *_) = judged(job(*conditions, spec=spec, **status), evicted()).findings
        assert (finding.reason, finding.subject, finding.hint) == ("EvictionByEvictionAPI", f"pod/{NAME}-abcd1", hint)


def test_evicted_pod_of_a_job_being_deleted_has_no_hint_to_wait() -> None:
    workload = job(spec={"backoffLimit": 1}, failed=1)
    workload["metadata"]["deletionTimestamp"] = at(30)
    assert WAIT not in [finding.hint for finding in judged(workload, evicted()).findings]


def lost(attempt: int = 1) -> Object:
    """Return the pod of an attempt that ended with its node."""
    gone = pod(attempt=attempt, phase="Failed")
    gone["status"]["reason"] = "NodeLost"
    return gone


def test_replaced_pod_has_no_hint() -> None:
    workload = job(spec={"backoffLimit": 2}, active=1, failed=1)
    assert [finding.hint for finding in judged(workload, lost(1)).findings] == [WAIT, WAIT]
    assert [finding.hint for finding in judged(workload, lost(1), pod(attempt=2)).findings] == [None]
    assert [finding.hint for finding in judged(job("Complete"), lost(1), succeeded(2)).findings] == []
    ended = judged(job("Complete", spec={"backoffLimit": 2}), lost(1), succeeded(2))
    assert [(finding.reason, finding.hint) for finding in ended.findings] == [("Retried", None)]


def test_deleted_pod_has_hint_to_wait_until_another_exists() -> None:
    workload, memory = job(spec={"backoffLimit": 1}, active=1), Memory(KIND)
    memory.add(Snapshot(workload, pods=(pod(),), age=30), 0)
    counted = job(spec={"backoffLimit": 1}, failed=1)
    snapshot = Snapshot(counted, age=31)
    verdict = diagnose(KIND, snapshot, memory.add(snapshot, 1))
    assert [(finding.subject, finding.hint) for finding in verdict.findings] == [(f"pod/{NAME}-abcd1", WAIT)]
    snapshot = Snapshot(counted, pods=(pod(attempt=2),), age=50)
    assert diagnose(KIND, snapshot, memory.add(snapshot, 20)).findings == ()


IGNORED = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}
DRAINED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": at(22),
}


def creation(attempt: int) -> Object:
    """Return the event that the pod of an attempt was created."""
    return {**warning(f"Created pod: {NAME}-abcd{attempt}", attempt, "SuccessfulCreate"), "type": "Normal"}


def test_disrupted_pods_are_counted_apart_from_attempts() -> None:
    events = (creation(1), creation(2), creation(3))
    message = (
        "the pod was started again twice after a drain, a preemption or a lost node, which does not count as a failure"
    )
    disrupted = Finding("Disrupted", f"job/{NAME}", message, blocks=False)
    verdict = judged(job(spec=IGNORED, active=1), pod(attempt=3), events=events)
    assert (verdict.phase, verdict.findings) == (Phase.RUNNING, (disrupted,))
    verdict = judged(job("Complete", spec=IGNORED, succeeded=1), succeeded(3), events=events)
    assert (verdict.phase, verdict.findings) == (Phase.SUCCEEDED, (disrupted,))


def test_pod_made_after_the_pods_were_read_does_not_count_as_disrupted() -> None:
    killed = pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed", attempt=1)
    verdict = judged(job(spec=IGNORED, active=1, failed=1), killed, events=(creation(1), creation(2)))
    assert "Disrupted" not in [finding.reason for finding in verdict.findings]


def test_deleted_pods_of_a_job_count_as_failures() -> None:
    verdict = judged(
        job(spec={**IGNORED, "backoffLimit": 1}, active=1, failed=1), pod(attempt=2), events=(creation(1),)
    )
    assert verdict.findings == ()


def test_job_replaces_its_disrupted_pod_without_retries() -> None:
    going = pod({"terminated": {"exitCode": 143, "finishedAt": at(25)}}, phase="Failed")
    going["status"]["conditions"] = [DRAINED]
    assert KIND.replaces_pods(Snapshot(job(spec=IGNORED, active=1), (), (going,), (), 30))
    assert not KIND.replaces_pods(Snapshot(job(active=1), (), (going,), (), 30))
