"""The verdicts on a JobSet: its phase, and the pod that failed first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.past import Past
from packager.kubernetes.objects import name
from packager.kubernetes.snapshot import PodLog, Snapshot
from packager.kubernetes.verdict import Finding, Phase, Verdict
from packager.workloads.jobset.life import JobSet
from tests.fake_cluster import Object, item

NAME = "demo-multi-node"
BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
KIND = JobSet()
RUNNING = {"running": {"startedAt": "2026-11-21T00:00:02Z"}}
LABEL = "jobset.sigs.k8s.io"


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def conditions(*descriptions: str) -> list[Object]:
    """Return conditions that hold: type, type and reason, or these and a message."""
    condition_list = [
        dict(zip(("type", "reason", "message"), word.split(":", 2), strict=False)) for word in descriptions
    ]
    return [{"status": "True", "lastTransitionTime": at(20), **condition} for condition in condition_list]


def jobset(*descriptions: str, retries: int = 0, **status: Any) -> Object:
    spec: Object = {"successPolicy": {"targetReplicatedJobs": ["node"]}, "replicatedJobs": [{"name": "node"}]}
    spec |= {"failurePolicy": {"maxRestarts": retries}} if retries else {}
    jobset_status = {"conditions": conditions(*descriptions), **status} if descriptions or status else {}
    return item("JobSet", NAME, metadata={"creationTimestamp": at(0)}, spec=spec, status=jobset_status)


def job(*descriptions: str, role: str = "node", attempt: int = 0, **status: Any) -> Object:
    labels = {f"{LABEL}/replicatedjob-name": role, f"{LABEL}/restart-attempt": str(attempt)}
    return item(
        "Job",
        f"{NAME}-{role}-0",
        metadata={"labels": labels, "creationTimestamp": at(1)},
        spec={"activeDeadlineSeconds": 60},
        status={"conditions": conditions(*descriptions), "active": 2, **status},
    )


def pod(
    index: int = 0,
    state: Object = RUNNING,
    *,
    role: str = "node",
    attempt: int = 0,
    phase: str = "Running",
    **metadata: Any,
) -> Object:
    labels = {f"{LABEL}/replicatedjob-name": role, f"{LABEL}/restart-attempt": str(attempt)}
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    annotations |= {"mlpack/main": "true"} if role == "node" else {"mlpack/options": "storage"}
    owner = {"uid": f"Job-{NAME}-{role}-0"}
    begin = {"creationTimestamp": at(2 + 30 * attempt), "ownerReferences": [owner]}
    return item(
        "Pod",
        f"{NAME}-{role}-0-{index}-abcd{attempt}",
        metadata={**begin, "labels": labels, "annotations": annotations, **metadata},
        spec={"containers": [{"name": role, "image": "a:1"}]},
        status={
            "phase": phase,
            "containerStatuses": [{"name": role, "image": "a:1", "state": state, "restartCount": 0}],
        },
    )


def failed(index: int, second: float, log: str, *, code: int = 1, **more: Any) -> Object:
    end = {"exitCode": code, "reason": "Error", "message": log, "startedAt": at(2), "finishedAt": at(second)}
    return pod(index, {"terminated": end}, phase="Failed", **more)


def event(about: Object, reason: str, message: str, second: float, kind: str = "Normal") -> Object:
    involved = {"kind": about["kind"], "name": name(about), "uid": about["metadata"]["uid"]}
    metadata = {"name": f"event-{second}", "creationTimestamp": at(second)}
    return {"type": kind, "reason": reason, "message": message, "involvedObject": involved, "metadata": metadata}


def judged(workload: Object, *items: Object, age: float = 30, events: tuple[Object, ...] = ()) -> Verdict:
    jobs = tuple(one for one in items if one["kind"] == "Job")
    pods = tuple(one for one in items if one["kind"] == "Pod")
    return diagnose(KIND, Snapshot(workload, jobs, pods, events, age), Past())


FAILED = "Failed:FailedJobs:jobset failed due to one or more job failures (first failed job: x)"
FAILING = "FailureTarget:BackoffLimitExceeded"


def test_jobset_succeeds_when_completed() -> None:
    assert judged(jobset("Completed:AllJobsCompleted")) == Verdict(Phase.SUCCEEDED, "all pods of node have succeeded")


def test_jobset_names_first_failure_before_lost_connections() -> None:
    cause = failed(1, 10, "Traceback\nValueError: step 2")
    effect = failed(0, 10, "RuntimeError: Connection reset by peer")
    verdict = judged(jobset(FAILED), job(FAILING), effect, cause)
    message = "node 1: container node ended with exit code 1"
    assert (verdict.phase, verdict.summary) == (Phase.FAILED, message)
    assert [(finding.subject, finding.message, finding.log) for finding in verdict.findings] == [
        (f"pod/{name(cause)}", message, ("Traceback", "ValueError: step 2")),
        (f"pod/{name(effect)}", message.replace("1:", "0:"), ("RuntimeError: Connection reset by peer",)),
    ]


def test_lost_connection_is_the_cause_if_other_pods_fail_much_later() -> None:
    verdict = judged(jobset(FAILED), job(FAILING), failed(0, 9, "Connection refused"), failed(1, 30, "no more data"))
    assert verdict.summary == "node 0: container node ended with exit code 1"


def test_jobset_fails_before_its_pods_have_stopped() -> None:
    going = pod(0, deletionTimestamp=at(40), deletionGracePeriodSeconds=30)
    verdict = judged(jobset("StartupPolicyCompleted"), job(FAILING), going, failed(1, 9, "no data", code=3))
    assert (verdict.phase, verdict.summary) == (Phase.FAILED, "node 1: container node ended with exit code 3")


def test_jobset_runs_while_a_failure_is_retried() -> None:
    verdict = judged(jobset("StartupPolicyCompleted", retries=1), job(FAILING), pod(0), failed(1, 9, "no data"))
    assert verdict.phase is Phase.RUNNING


def test_restarted_jobset_reports_failed_attempt() -> None:
    restarting = (
        "RestartingJobSet:DefaultFailurePolicy:applying RestartJobSet failure policy action (first failed job: a)"
    )
    workload = jobset(restarting, retries=2, restarts=1)
    verdict = judged(workload, job(attempt=1), pod(0, attempt=1), pod(1, attempt=1), failed(1, 9, "no data"))
    retried = "attempt 1 of 3 has failed, and all pods were started again: a had failed"
    assert verdict.phase is Phase.RUNNING
    assert verdict.findings[0] == Finding("Retried", f"jobset/{NAME}", retried, blocks=False)


def test_failed_jobset_reports_last_attempt() -> None:
    workload = jobset("Failed:ReachedMaxRestarts", retries=1, restarts=1)
    verdict = judged(workload, job("Failed:BackoffLimitExceeded", attempt=1), failed(1, 39, "no data", attempt=1))
    assert verdict.summary == "node 1: container node ended with exit code 1, in the last of 2 attempts"


PERMANENT = {"name": "permanentExitCodes", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
BY_CODE = (
    "FailureTarget:PodFailurePolicy:Container node for pod a/b failed with exit code 3 matching FailJob rule at index 0"
)


def with_rules(*rules: Object, failed: str = "StartupPolicyCompleted", restarts: int = 0) -> Object:
    workload = jobset(failed, retries=2, restarts=restarts)
    workload["spec"]["failurePolicy"]["rules"] = list(rules)
    return workload


def test_permanent_exit_code_fails_jobset_before_its_pods_have_stopped() -> None:
    verdict = judged(with_rules(PERMANENT), job(BY_CODE), pod(0), failed(1, 9, "no data", code=3))
    message = "node 1: container node ended with exit code 3"
    why = ", in attempt 1 of 3: exit code 3 is permanent"
    assert (verdict.phase, verdict.summary) == (Phase.FAILED, message + why)
    workload = with_rules(PERMANENT, restarts=2)
    verdict = judged(workload, job(BY_CODE, attempt=2), failed(1, 69, "no data", code=3, attempt=2))
    assert (verdict.phase, verdict.summary) == (Phase.FAILED, f"{message}, in the last of 3 attempts")


def test_rule_for_other_failures_does_not_end_the_jobset() -> None:
    rules: Any
    for end, rules in [
        (FAILING, [PERMANENT]),
        (BY_CODE, [{**PERMANENT, "targetReplicatedJobs": ["other"]}]),
        (BY_CODE, [{**PERMANENT, "onJobFailureMessagePatterns": ["other"]}]),
        (BY_CODE, [{"name": "a", "action": "RestartJobSet"}, PERMANENT]),
    ]:
        verdict = judged(with_rules(*rules), job(end), pod(0), failed(1, 9, "no data", code=3))
        assert verdict.phase is Phase.RUNNING


def test_permanent_exit_code_of_one_of_several_jobs_waits_for_jobset() -> None:
    """JobSet goes by the Job that has failed first: another one may take less long to stop its pods."""
    workload = with_rules(PERMANENT)
    workload["spec"]["replicatedJobs"].append({"name": "other"})
    pods = [pod(0), failed(1, 9, "no data", code=3), pod(role="other")]
    assert judged(workload, job(BY_CODE), job(role="other"), *pods).phase is Phase.RUNNING
    workload["status"]["conditions"] = conditions("Failed:FailJobSetFailurePolicyAction")
    verdict = judged(workload, job(BY_CODE), job(role="other"), *pods)
    message = "node 1: container node ended with exit code 3, in attempt 1 of 3: exit code 3 is permanent"
    assert (verdict.phase, verdict.summary) == (Phase.FAILED, message)


def test_last_attempt_fails_unless_a_rule_starts_another() -> None:
    going = failed(1, 69, "no data", attempt=2)
    assert judged(with_rules(PERMANENT, restarts=2), job(FAILING, attempt=2), going).phase is Phase.FAILED
    ignoring = {"name": "a", "action": "RestartJobSetAndIgnoreMaxRestarts"}
    assert judged(with_rules(ignoring, restarts=2), job(FAILING, attempt=2), going).phase is not Phase.FAILED


def test_failure_policy_rule_of_a_user_is_named_as_the_reason() -> None:
    workload = with_rules({"name": "a", "action": "FailJobSet"}, failed="Failed:FailJobSetFailurePolicyAction")
    assert judged(workload, job(FAILING), failed(1, 9, "no data")).summary == (
        "node 1: container node ended with exit code 1, in attempt 1 of 3: a rule of its failurePolicy ends it"
    )


def test_pod_deleted_by_a_user_is_the_cause_before_pods_deleted_by_the_job() -> None:
    first = pod(1, deletionTimestamp=at(40), deletionGracePeriodSeconds=30)
    other = pod(0, deletionTimestamp=at(40), deletionGracePeriodSeconds=30)
    cleaned = event(job(), "SuccessfulDelete", f"Deleted pod: {name(other)}", 10)
    verdict = judged(jobset(FAILED), job(FAILING), other, first, events=(cleaned,))
    message = "node 1: it was deleted, which stopped it"
    assert (verdict.phase, verdict.summary) == (Phase.FAILED, message)
    assert [(finding.reason, finding.subject) for finding in verdict.findings] == [("Deleted", f"pod/{name(first)}")]


def test_deleted_pod_is_the_cause_after_it_has_disappeared() -> None:
    first, other = pod(1), pod(0)
    events = (
        event(first, "Killing", "Stopping container node", 10),
        event(other, "Killing", "Stopping container node", 11),
        event(job(), "SuccessfulDelete", f"Deleted pod: {name(other)}", 11),
    )
    verdict = judged(jobset(FAILED), job(FAILING), events=events)
    assert (verdict.summary, verdict.findings[0].subject) == (
        "node 1: it was deleted, which stopped it",
        f"pod/{name(first)}",
    )


def test_pod_deleted_before_another_failed_is_the_cause() -> None:
    """A program that notices that another one is told to stop may end before it."""
    for is_gone in [False, True]:
        deleted = pod(1) if is_gone else pod(1, deletionTimestamp=at(40), deletionGracePeriodSeconds=30)
        effect = failed(0, 12, "stopped by SIGTERM")
        killed = event(deleted, "Killing", "Stopping container node", 10)
        verdict = judged(jobset(FAILED), job(FAILING), effect, *(() if is_gone else (deleted,)), events=(killed,))
        message = "node 1: it was deleted, which stopped it"
        assert (verdict.phase, verdict.summary) == (Phase.FAILED, message)
        assert [(finding.reason, finding.subject) for finding in verdict.findings] == [
            ("Deleted", f"pod/{name(deleted)}"),
            ("Error", f"pod/{name(effect)}"),
        ]


def test_deleted_pod_is_not_the_cause_once_it_was_replaced_or_after_a_failure() -> None:
    effect = failed(0, 30, "no data")
    early = event(pod(1), "Killing", "Stopping container node", 10)
    later = event(pod(1), "Killing", "Stopping container node", 30)
    before = event(pod(1), "Killing", "Stopping container node", 0.5)
    for pods, event_of_pod in (((pod(1),), early), ((), later), ((), before)):
        verdict = judged(jobset(FAILED), job(FAILING), effect, *pods, events=(event_of_pod,))
        assert verdict.summary == "node 0: container node ended with exit code 1", event_of_pod


def test_jobset_reports_exceeded_deadline() -> None:
    verdict = judged(jobset(FAILED), job("FailureTarget:DeadlineExceeded"), pod(0, deletionTimestamp=at(90)))
    assert verdict.summary == "it took longer than its activeDeadlineSeconds of 60"


def test_jobset_without_controller_is_stuck_after_eight_seconds() -> None:
    assert judged(jobset(), age=5) == Verdict(Phase.PENDING, "no pods yet")
    verdict = judged(jobset(), age=9)
    assert (verdict.phase, verdict.summary) == (Phase.STUCK, "no controller has reacted: JobSet is not running")
    assert verdict.findings[0].hint == (
        "is JobSet running? kubectl get pods --all-namespaces | grep jobset-controller-manager"
    )


def test_end_of_jobs_becomes_the_verdict_if_jobset_stays_silent() -> None:
    done = job("Complete", active=0)
    assert judged(jobset("StartupPolicyCompleted"), done, age=25).findings == ()
    later = judged(jobset("StartupPolicyCompleted"), done, age=40)
    assert [finding.reason for finding in later.findings] == ["OperatorSilent"]
    verdict = judged(jobset("StartupPolicyCompleted"), done, age=60)
    assert (verdict.phase, verdict.summary) == (Phase.SUCCEEDED, "all pods of node have succeeded")


QUOTA = 'pods "x" is forbidden: exceeded quota: full, requested: pods=1, used: pods=1, limited: pods=1'
TOLD = "the quota full of the namespace does not allow another pod: asked for pods=1, used pods=1 of pods=1"


def test_jobset_reports_event_of_a_refused_pod() -> None:
    child = job(active=0)
    verdict = judged(
        jobset("X"), child, events=(event(child, "FailedCreate", f"Error creating: {QUOTA}", 2, "Warning"),)
    )
    assert (verdict.phase, verdict.summary) == (Phase.STUCK, TOLD)


def test_jobset_whose_second_pod_is_refused_is_stuck() -> None:
    child = job(active=1)
    child["spec"]["parallelism"] = 2
    refused = event(child, "FailedCreate", f"Error creating: {QUOTA}", 2, "Warning")
    verdict = judged(jobset("X"), child, pod(0), events=(refused,))
    assert (verdict.phase, verdict.summary) == (Phase.STUCK, TOLD)


def test_jobset_reports_event_of_refused_objects() -> None:
    reason = "HeadlessServiceCreationFailed"
    workload = jobset()
    verdict = judged(workload, events=(event(workload, reason, "no such thing", 2, "Warning"),))
    assert (verdict.phase, verdict.findings[0].reason, verdict.summary) == (Phase.STUCK, reason, "no such thing")


def test_pods_of_the_last_attempt_are_listed_by_role_and_index() -> None:
    pods = [
        pod(1),
        pod(0, role="server"),
        pod(0),
        pod(0, attempt=1),
        pod(1, attempt=1),
        pod(0, role="server", attempt=1),
    ]
    names = [f"{NAME}-node-0-0-abcd1", f"{NAME}-node-0-1-abcd1", f"{NAME}-server-0-0-abcd1"]
    assert [name(one) for one in KIND.listed(pods)] == names
    assert [name(one) for one in KIND.workers(pods)] == names[:2]
    main = KIND.main(pods)
    assert main is not None
    assert name(main) == names[0]


def test_another_pod_does_not_take_the_place_of_the_first_one() -> None:
    assert KIND.main([pod(1), pod(0)]) == pod(0)
    assert KIND.main([pod(1)]) is None
    assert KIND.main([]) is None


def test_pod_names_determine_roles() -> None:
    for pod_name, role in [
        (f"{NAME}-node-0-12-x2f9k", "worker"),
        (f"{NAME}-node-0-12", None),
        (f"other-{NAME}-node-0-1-x2f9k", None),
    ]:
        assert KIND.role(NAME, pod_name) == role


def snapshot(workload: Object, *items: Object, logs: tuple[PodLog, ...] = ()) -> Snapshot:
    jobs = tuple(one for one in items if one["kind"] == "Job")
    return Snapshot(workload, jobs, tuple(one for one in items if one["kind"] == "Pod"), (), 30, logs=logs)


def test_logs_of_stopped_pods_are_shown_after_their_deletion() -> None:
    cause, other = failed(1, 9, "ValueError"), pod(0)
    logs = (PodLog(other, ("step 1", "step 2")), PodLog(cause, ("step 1", "ValueError: no data")))
    verdict = diagnose(KIND, snapshot(jobset(FAILED), job(FAILING), cause, logs=logs), Past())
    message = "node 1: container node ended with exit code 1"
    assert verdict.findings == (
        Finding("Error", f"pod/{name(cause)}", message, log=("step 1", "ValueError: no data"), container="node"),
        Finding(
            "Stopped",
            f"pod/{name(other)}",
            "node 0 was stopped; its last lines:",
            blocks=False,
            log=("step 1", "step 2"),
        ),
    )


def test_stopped_pod_without_a_log_is_named_if_it_was_running() -> None:
    cause, other, never_started = failed(1, 9, "ValueError"), pod(0), pod(2, state={"waiting": {}})
    logs = (PodLog(other, ()), PodLog(never_started, ()))
    verdict = diagnose(KIND, snapshot(jobset(FAILED), job(FAILING), cause, logs=logs), Past())
    message = "node 0 was stopped; its log is empty, or was deleted before it could be read"
    assert verdict.findings[1:] == (Finding("Stopped", f"pod/{name(other)}", message, blocks=False),)


def test_failure_of_an_earlier_attempt_is_reported_until_the_end() -> None:
    for end in ["", "Completed", "Failed:ReachedMaxRestarts"]:
        before, now = failed(1, 9, "ValueError"), pod(0, attempt=1)
        workload = jobset(*([end] if end else ["X"]), retries=1, restarts=1)
        logs = (PodLog(before, ("ValueError: no data",)), PodLog(pod(0), ("step 1",)))
        verdict = diagnose(
            KIND,
            snapshot(workload, job(attempt=1), now, logs=logs),
            Past((Finding("Error", f"pod/{name(before)}", "x"),)),
        )
        message = "attempt 1 of 2: node 1: container node ended with exit code 1"
        assert verdict.findings == (
            Finding("Retried", f"pod/{name(before)}", message, blocks=False, log=("ValueError: no data",)),
        )


def test_pods_are_about_to_be_deleted_once_one_has_failed_or_is_stopped() -> None:
    well, bad, going = pod(0), failed(1, 9, "x"), pod(1, deletionTimestamp=at(40))
    assert list(KIND.pods_about_to_go(snapshot(jobset(), well, pod(1)))) == []
    assert list(KIND.pods_about_to_go(snapshot(jobset(), well, bad))) == [well, bad]
    assert list(KIND.pods_about_to_go(snapshot(jobset(), well, going))) == [well, going]


TORCHRUN = (
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 9)",
    "Traceback (most recent call last):",
    *(f'  File "torch/{number}.py"' for number in range(20)),
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    *("-" * 60 for _ in range(15)),
)
"""The lines that torchrun writes below the output of its processes."""

RAISED = ("step 1", "Traceback (most recent call last):", '  File "train.py", line 7', "ValueError: no image 7")
LOST = (*RAISED[:3], "RuntimeError: [pair.cc:598] Connection closed by peer [10.244.0.13]:28349")


def test_lost_connection_is_recognized_above_the_report_of_torchrun() -> None:
    """The message of a pod's end holds no more than the report's end, which is the same on every node."""
    cause, effect = failed(1, 10, TORCHRUN[-1]), failed(0, 9, TORCHRUN[-1])
    logs = (PodLog(effect, (*LOST, *TORCHRUN)), PodLog(cause, (*RAISED, *TORCHRUN)))
    verdict = diagnose(KIND, snapshot(jobset(FAILED), job(FAILING), effect, cause, logs=logs), Past())
    assert verdict.summary == "node 1: container node ended with exit code 1"
    assert verdict.findings[0].log == (*RAISED, *TORCHRUN)


def reported(second: int) -> str:
    """Return the end of torchrun's report, which is all that the message of a pod's end contains."""
    times = [f"  time      : 2026-11-21_00:00:{number:02}" for number in (second + 5, second)]
    return "\n".join(["[1]:", times[0], "Root Cause (first observed failure):", "[0]:", times[1], "  exitcode  : 1"])


def test_report_of_torchrun_determines_node_that_failed_first() -> None:
    """Without a log: torchrun ends seconds after the program, on one node sooner than on the other."""
    cause, effect = failed(1, 10, reported(7)), failed(0, 9, reported(8))
    assert (
        judged(jobset(FAILED), job(FAILING), effect, cause).summary == "node 1: container node ended with exit code 1"
    )


def test_failed_container_counts_before_its_pod_has_failed() -> None:
    bad, well = failed(1, 9, "ValueError"), pod(0)
    bad["status"]["phase"] = "Running"
    assert list(KIND.pods_about_to_go(snapshot(jobset(), well, bad))) == []
    bad["spec"]["restartPolicy"] = "Never"
    assert list(KIND.pods_about_to_go(snapshot(jobset(), well, bad))) == [well, bad]
    restarted = jobset("X", retries=1, restarts=1)
    now = snapshot(restarted, job(attempt=1), pod(0, attempt=1), logs=(PodLog(bad, ("ValueError: no data",)),))
    assert diagnose(KIND, now, Past()).findings[0].message == (
        "attempt 1 of 2: node 1: container node ended with exit code 1"
    )


def test_node_stopped_after_its_own_error_is_the_cause() -> None:
    for prefix in ["", "[rank1]: "]:
        for is_gone in [True, False]:
            effect, going = failed(0, 9, LOST[-1]), pod(1, deletionTimestamp=at(40), deletionGracePeriodSeconds=30)
            stop = (
                "WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal",
                TORCHRUN[1],
                "SignalException",
            )
            raised = tuple(f"{prefix}{line}" for line in RAISED[1:])
            logs = (PodLog(effect, (*LOST, *TORCHRUN)), PodLog(pod(1), (RAISED[0], *raised, *stop)))
            pods = (effect,) if is_gone else (effect, going)
            verdict = diagnose(KIND, snapshot(jobset(FAILED), job(FAILING), *pods, logs=logs), Past())
            message = "node 1: it was stopped after ValueError: no image 7"
            assert (verdict.summary, verdict.findings[0].message) == (message, message)
            assert verdict.findings[0].log == (*raised, *stop)
            assert verdict.findings[1].message == "node 0: container node ended with exit code 1"


def test_node_stopped_without_its_own_error_is_not_the_cause() -> None:
    for lines in [
        ("step 1",),
        LOST,
        ("step 1", TORCHRUN[1], "  File", "torch.distributed.SignalException: 15"),
        (TORCHRUN[1],),
    ]:
        effect = failed(0, 9, LOST[-1])
        logs = (PodLog(effect, LOST), PodLog(pod(1), lines))
        verdict = diagnose(KIND, snapshot(jobset(FAILED), job(FAILING), effect, pod(1), logs=logs), Past())
        assert verdict.summary == "node 0: container node ended with exit code 1"


def test_error_of_an_earlier_attempt_is_shown_without_the_report_of_torchrun() -> None:
    workload = jobset("X", retries=1, restarts=1)
    logs = (PodLog(failed(0, 9, "x"), (*LOST, *TORCHRUN)), PodLog(pod(1), RAISED))
    now = snapshot(workload, job(attempt=1), pod(0, attempt=1), logs=logs)
    finding = diagnose(KIND, now, Past()).findings[0]
    assert finding.message == "attempt 1 of 2: node 1: it was stopped after ValueError: no image 7"
    assert finding.log == RAISED[1:]


def test_attempts_count_starts_of_all_pods() -> None:
    assert KIND.attempts(Snapshot(jobset(), (job(),))) is None  # suspended, or its pods were not made yet
    assert KIND.attempts(Snapshot(jobset(), (job(startTime=at(1)),))) == 1
    assert KIND.attempts(Snapshot(jobset(), (job(),), (pod(),))) == 1
    assert KIND.attempts(Snapshot(jobset(restarts=2), ())) == 3


RULE = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}


def test_jobset_replaces_pods_while_another_attempt_is_left() -> None:
    for workload, is_replaced in [
        (jobset(retries=1), True),
        (jobset(retries=1, restarts=1), False),
        (jobset(), False),
        (with_rules(RULE), True),
        (with_rules({"action": "FailJobSet"}), False),
        (with_rules({**RULE, "onJobFailureReasons": ["BackoffLimitExceeded"]}), False),
        (with_rules({"action": "FailJobSet", "targetReplicatedJobs": ["node"]}), False),
    ]:
        assert KIND.replaces_pods(snapshot(workload, job())) is is_replaced
        for stopped in ({"spec": {**workload["spec"], "suspend": True}}, {"metadata": {"deletionTimestamp": at(9)}}):
            assert not KIND.replaces_pods(snapshot({**workload, **stopped}, job()))


DISRUPTION = {
    "name": "disruption",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": ["has condition DisruptionTarget matching FailJob rule"],
}
DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at(9)}
BY_DRAIN = "PodFailurePolicy:Pod a/b has condition DisruptionTarget matching FailJob rule at index 0"


def disruptible(*descriptions: str, **status: Any) -> Object:
    workload = jobset(*descriptions, **status)
    workload["spec"]["failurePolicy"] = {"maxRestarts": 0, "rules": [DISRUPTION]}
    return workload


def test_disrupted_jobset_without_retries_is_started_again() -> None:
    workload = disruptible("StartupPolicyCompleted")
    ended = failed(1, 9, "connection reset")
    ended["status"]["conditions"] = [DRAINED]
    assert judged(workload, job(f"FailureTarget:{BY_DRAIN}"), pod(0), ended).phase is Phase.RUNNING
    assert judged(workload, job(f"Failed:{BY_DRAIN}"), pod(0)).phase is Phase.RUNNING
    assert KIND.replaces_pods(snapshot(workload, job(), pod(0), ended))
    assert judged(workload, job(FAILING), pod(0), failed(1, 9, "no data")).phase is Phase.FAILED


def test_restarts_after_disruptions_are_counted_apart_from_retries() -> None:
    why = "after a drain, a preemption or a lost node, which does not count as a failure"
    message = f"all pods were started again twice {why}"
    disrupted = Finding("Disrupted", f"jobset/{NAME}", message, blocks=False)
    for workload in (disruptible("X", restarts=2), disruptible("Completed", restarts=2)):
        assert judged(workload, job(attempt=2), pod(0, attempt=2)).findings == (disrupted,)
    counted = disruptible("X", restarts=3, restartsCountTowardsMax=1)
    counted["spec"]["failurePolicy"]["maxRestarts"] = 1
    assert judged(counted, job(attempt=3), pod(0, attempt=3)).findings[0] == disrupted
    verdict = judged(counted, job(FAILING, attempt=3), failed(1, 9, "no data", attempt=3))
    assert verdict.summary.endswith("in the last of 4 attempts")
