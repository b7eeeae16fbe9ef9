"""The verdicts on a Deployment: whether it serves, and the reason if it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.past import Past
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Finding, Phase, Verdict
from packager.workloads.deployment.life import Deployment
from tests.fake_cluster import Object, item

NAME = "hello-mpi-server"
BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
KIND = Deployment()
SHOWN = f"deployment/{NAME}"
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
ALL: dict[str, Any] = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def deployment(*conditions: Object, spec: Object | None = None, seen: int = 1, **counts: Any) -> Object:
    """Return the Deployment, of which the controller has seen a generation."""
    status = {"observedGeneration": seen, "conditions": list(conditions), **counts} if seen else {}
    metadata = {"creationTimestamp": at(0), "generation": 1}
    return item("Deployment", NAME, metadata=metadata, spec={"replicas": 2, **(spec or {})}, status=status)


def replica_set(revision: int) -> Object:
    metadata = {"annotations": {"deployment.kubernetes.io/revision": str(revision)}}
    return item("ReplicaSet", f"{NAME}-{revision}", metadata=metadata)


def pod(number: int, revision: int = 1, *, is_ready: bool = True, state: Object | None = None, **more: Any) -> Object:
    """Return a pod of a rollout, which runs when no other state is given."""
    metadata = {
        "creationTimestamp": at(number),
        "ownerReferences": [{"uid": f"ReplicaSet-{NAME}-{revision}"}],
        **more.pop("metadata", {}),
    }
    container = {"name": "main", "image": "a:1", "state": state or {"running": {}}, "restartCount": 0, **more}
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    return item(
        "Pod",
        f"{NAME}-{revision}-{number}",
        metadata=metadata,
        spec={"restartPolicy": "Always", "containers": [{"name": "main", "image": "a:1"}]},
        status={"phase": "Running", "conditions": [ready], "containerStatuses": [container]},
    )


def unhealthy(subject: Object, message: str) -> Object:
    about = {"kind": "Pod", "name": subject["metadata"]["name"], "uid": subject["metadata"]["uid"]}
    metadata = {"name": "event", "creationTimestamp": at(9)}
    return {"reason": "Unhealthy", "type": "Warning", "message": message, "involvedObject": about, "metadata": metadata}


def judged(workload: Object, *pods: Object, age: float = 30, events: tuple[Object, ...] = ()) -> Verdict:
    owners = sorted({int(obj["metadata"]["ownerReferences"][0]["uid"].rpartition("-")[2]) for obj in pods})
    return diagnose(KIND, Snapshot(workload, tuple(map(replica_set, owners)), pods, events, age), Past())


def test_deployment_serves_when_all_replicas_of_the_newest_rollout_do() -> None:
    assert judged(deployment(**ALL), pod(0), pod(1)) == Verdict(Phase.SERVING, "2 of 2 replicas serve")


def test_deployment_runs_before_all_replicas_serve() -> None:
    for counts, summary in [
        ({"seen": 0}, "0 of 2 replicas serve"),
        ({**ALL, "seen": 0, "replicas": 2}, "0 of 2 replicas serve"),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, "1 of 2 replicas serve"),
        # An old pod serves, and a new one does not yet: as many as there should be are available.
        (
            {"replicas": 3, "updatedReplicas": 2, "availableReplicas": 2},
            "2 of 2 replicas serve, 2 of 2 are up to date",
        ),
        (
            {"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2},
            "2 of 2 replicas serve, 1 of 2 are up to date",
        ),
    ]:
        assert judged(deployment(**counts), pod(0)) == Verdict(Phase.RUNNING, summary)


def test_status_of_an_earlier_generation_is_ignored() -> None:
    changed = deployment(LATE, **ALL)
    changed["metadata"]["generation"] = 2
    assert judged(changed, pod(0), pod(1)).phase is Phase.RUNNING


def test_late_rollout_is_stuck() -> None:
    new = pod(2, 2, is_ready=False)
    events = (unhealthy(new, "Startup probe failed: HTTP probe failed with statuscode: 404"),)
    stuck = deployment(LATE, replicas=3, updatedReplicas=1, availableReplicas=2, spec={"progressDeadlineSeconds": 60})
    earlier = "2 pods of the earlier rollout serve until the new ones are ready"
    late = "no pod of the newest rollout has become ready for 60 s, its progressDeadlineSeconds"
    assert judged(stuck, pod(0), pod(1), new, events=events) == Verdict(
        Phase.STUCK,
        late,
        (
            Finding("ProgressDeadlineExceeded", SHOWN, late, final_after=0),
            Finding(
                "Unhealthy",
                f"pod/{NAME}-2-2",
                "it is not ready: Startup probe failed: HTTP probe failed with statuscode: 404",
                blocks=False,
            ),
            Finding("EarlierServes", SHOWN, earlier, blocks=False),
        ),
    )


def test_crash_looping_deployment_is_stuck() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no weights in /modle\n"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    looping = pod(2, 2, is_ready=False, state=waiting, lastState=ended, restartCount=3)
    verdict = judged(deployment(replicas=3, updatedReplicas=1, availableReplicas=2), pod(0), pod(1), looping)
    assert verdict.phase is Phase.STUCK
    assert verdict.findings[0].subject == SHOWN
    assert verdict.findings[1] == Finding(
        "CrashLoopBackOff",
        f"pod/{NAME}-2-2",
        "container main ended with exit code 1, again and again",
        final_after=30.0,
        log=("no weights in /modle",),
    )


def test_crash_loop_before_the_program_is_final() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no model in /modle\n"}}
    looping = pod(0, is_ready=False)
    init = {"name": "init", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended, "restartCount": 3}
    looping["status"] |= {"phase": "Pending", "initContainerStatuses": [init]}
    looping["spec"]["initContainers"] = [{"name": "init", "image": "a:1"}]
    findings = judged(deployment(replicas=1, updatedReplicas=1), looping).findings
    (finding,) = (finding for finding in findings if finding.reason == "CrashLoopBackOff")
    assert finding.message == "container init ended with exit code 1, again and again"
    assert (finding.final_after, finding.log) == (30.0, ("no model in /modle",))


def test_crash_loop_of_an_earlier_rollout_does_not_end_the_wait() -> None:
    """The newest pods may need longer to start than a crash loop takes to count as final."""
    last = {"terminated": {"exitCode": 1, "reason": "Error"}}
    crashing = pod(0, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=last, restartCount=3, is_ready=False)
    verdict = judged(deployment(replicas=3, updatedReplicas=1), crashing, pod(1, revision=2, is_ready=False))
    assert (verdict.phase, verdict.summary) == (Phase.RUNNING, "0 of 2 replicas serve, 1 of 2 are up to date")
    assert [(finding.message, finding.blocks) for finding in verdict.findings] == [
        ("container main ended with exit code 1, again and again", False)
    ]


def test_full_quota_is_reported() -> None:
    message = 'pods "a" is forbidden: exceeded quota: mine, requested: pods=1, used: pods=2, limited: pods=2'
    full = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    verdict = judged(deployment(full, replicas=1, updatedReplicas=1), pod(0))
    assert (verdict.phase, verdict.findings[0].reason) == (Phase.STUCK, "QuotaExceeded")
    assert verdict.findings[0].subject == SHOWN


def test_refused_replica_set_is_reported() -> None:
    """The controller says so, and does not count the spec as seen."""
    refusal = 'replicasets.apps "a" is forbidden: exceeded quota: mine, requested: count/replicasets.apps=1, '
    message = f'Failed to create new replica set "a": {refusal}used: count/replicasets.apps=1, limited: '
    refused = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError"}
    workload = deployment({**refused, "message": f"{message}count/replicasets.apps=1"}, **ALL)
    workload["metadata"]["generation"] = 2
    verdict = judged(workload, pod(0), pod(1))
    assert (verdict.phase, verdict.findings[0].reason) == (Phase.STUCK, "QuotaExceeded")


def test_paused_rollout_is_stuck() -> None:
    verdict = judged(deployment(replicas=2, updatedReplicas=0, spec={"paused": True}), pod(0))
    hint = f"kubectl rollout resume {SHOWN}"
    (finding,) = verdict.findings
    assert (verdict.phase, verdict.summary, finding.reason) == (Phase.STUCK, "its rollout is paused", "Paused")
    assert (finding.subject, finding.message, finding.hint) == (SHOWN, "its rollout is paused", hint)


def test_main_pod_is_not_being_deleted() -> None:
    pods = [pod(0), pod(1, metadata={"deletionTimestamp": at(20)})]
    assert KIND.main(pods) is pods[0]
    assert KIND.workers(pods) == [pods[1]]
    assert KIND.main([]) is None


def test_pod_names_determine_roles() -> None:
    for pod_name, role in [
        (f"{NAME}-5d8f7c9b8d-x2x4z", "main"),
        (f"{NAME}-two-5d8f7c9b8d-x2x4z", None),
        (NAME, None),
    ]:
        assert KIND.role(NAME, pod_name) == role


def test_failed_pod_of_a_deployment_is_replaced() -> None:
    gone = pod(0)
    gone["status"] |= {"phase": "Failed", "reason": "NodeLost"}
    counts = {**ALL, "availableReplicas": 1}
    (finding,) = judged(deployment(**counts), gone, pod(1)).findings
    assert (finding.subject, finding.hint) == (f"pod/{NAME}-1-0", f"wait: {SHOWN} replaces the pod by itself")
    workload = deployment(**counts)
    workload["metadata"]["deletionTimestamp"] = at(20)
    assert not KIND.replaces_pods(Snapshot(workload))
