"""Verdicts on recordings of a real cluster (Kubernetes 1.34.4, mpi-operator 0.8.0)."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.past import Past
from packager.kubernetes.pods import failure
from packager.kubernetes.remedy import Action
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import NEVER, Finding, Phase, Verdict, grouped
from packager.workloads.kinds import kinds

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(case: str, *, age: float = 5) -> Snapshot:
    content = json.loads((RECORDED / f"{case}.json").read_text(encoding="utf-8"))
    return Snapshot(
        content["workload"], tuple(content["children"]), tuple(content["pods"]), tuple(content["events"]), age
    )


def verdict(snapshot: Snapshot, earlier: list[Finding] | None = None) -> Verdict:
    return diagnose(kinds()[snapshot.workload["kind"]], snapshot, Past(tuple(earlier or ())))


@pytest.mark.parametrize(
    ("case", "reason", "words", "action", "final"),
    [
        ("pod-exit", "Error", "container main ended with exit code 3", None, None),
        ("pod-source-denied", "NotFetched", "/private/a: no right to read it (status 403)", Action.RENEW_KEY, None),
        ("pod-source-digest", "NotFetched", "/text: wrong digest: expected sha256 0000", None, None),
        (
            "pod-memory",
            "OOMKilled",
            "container main used more memory than its limit of 64Mi",
            Action.RAISE_MEMORY,
            None,
        ),
        ("pod-image", "ErrImagePull", "docker.io/mpioperator/mpi-pi:nope cannot be pulled", Action.REACH_REGISTRY, 15),
        ("pod-unschedulable", "Unschedulable", "the only node has too little cpu left", Action.WAIT_FOR_ROOM, NEVER),
        ("mpijob-unschedulable", "Unschedulable", "the only node has too little cpu left", Action.WAIT_FOR_ROOM, NEVER),
        ("jobset-gang", "Unschedulable", "the only node has too little cpu left", Action.WAIT_FOR_ROOM, NEVER),
        ("mpijob-image", "ErrImagePull", "network is unreachable", Action.REACH_REGISTRY, 15),
        ("mpijob-memory", "Error", "a rank was killed", Action.RAISE_MEMORY_OF_ROLE, None),
        ("mpijob-forbidden", "PodSecurity", "enforces Pod Security restricted:latest", Action.MEET_LEVEL, 0),
        ("mpijob-rejected", "ValidationError", 'Unsupported value: "Sometimes"', Action.CORRECT_WORKLOAD, 0),
        ("mpijob-quota", "QuotaExceeded", "asked for pods=1, used pods=1 of pods=1", Action.WAIT_FOR_PODS, NEVER),
    ],
)
def test_recorded_fault_has_expected_verdict(
    case: str, reason: str, words: str, action: Action | None, final: float | None
) -> None:
    """A workload that has not failed waits, and becomes a failure after a time, if that is known."""
    diagnosis = verdict(recorded(case))
    finding, *_ = diagnosis.findings
    assert (diagnosis.phase, finding.reason) == (Phase.FAILED if final is None else Phase.STUCK, reason)
    assert words in finding.message
    assert (finding.remedy and finding.remedy.action) == action
    if final is not None:
        assert (diagnosis.summary, finding.final_after) == (finding.message, final)


def test_failed_sidecars_are_reported_while_ranks_run() -> None:
    diagnosis = verdict(recorded("mpijob-sidecar"))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.RUNNING, "pods: 3 error")
    (finding,) = diagnosis.findings
    assert (finding.reason, finding.others, finding.blocks, finding.container) == ("Error", 2, False, "sidecar")
    end = "container sidecar ended with exit code 4"
    assert finding.message == f"{end}, so that the pod fails when its other containers have ended"


@pytest.mark.parametrize("case", ["pod-succeeded", "mpijob-succeeded"])
def test_successful_workload_has_no_findings(case: str) -> None:
    diagnosis = verdict(recorded(case))
    assert (diagnosis.phase, diagnosis.findings) == (Phase.SUCCEEDED, ())


def test_findings_of_recorded_faults_have_logs_hints_and_counts() -> None:
    assert verdict(recorded("pod-exit")).findings[0].log == ("rank 0: this script ends with 3",)
    assert "64Mi" in (verdict(recorded("mpijob-memory")).findings[0].hint or "")
    (finding,) = verdict(recorded("mpijob-image")).findings
    assert finding.others == 2
    assert str(finding).startswith("pod/fault-image-multi-node-launcher")


def _untouched() -> dict[str, Any]:
    job = deepcopy(recorded("mpijob-rejected").workload)
    job.pop("status", None)
    return job


def test_missing_operator_is_reported_after_eight_seconds() -> None:
    assert verdict(Snapshot(_untouched(), age=2)).phase is Phase.PENDING
    diagnosis = verdict(Snapshot(_untouched(), age=9))
    assert (diagnosis.phase, diagnosis.findings[0].reason) == (Phase.STUCK, "OperatorSilent")
    assert diagnosis.findings[0].final_after == NEVER


def test_quota_smaller_than_the_pod_is_final() -> None:
    snapshot = recorded("mpijob-quota")
    for event in snapshot.events:
        event["message"] = (
            event["message"]
            .replace("requested: pods=1", "requested: pods=1,requests.cpu=4")
            .replace("limited: pods=1", "limited: pods=1,requests.cpu=1500m")
        )
    assert verdict(snapshot).findings[0].final_after == 0


def test_retry_refused_by_a_quota_is_reported_and_never_final() -> None:
    diagnosis = verdict(recorded("mpijob-retry-quota"))
    quota = "the quota full of the namespace does not allow another pod: asked for pods=1, used pods=2 of pods=1"
    assert (diagnosis.phase, diagnosis.summary) == (Phase.STUCK, quota)
    assert (diagnosis.findings[0].subject, diagnosis.findings[0].final_after) == (
        "job/fault-multi-node-launcher",
        NEVER,
    )


def test_retry_created_after_a_refusal_clears_it() -> None:
    snapshot = recorded("mpijob-retry-quota")
    made = deepcopy(next(event for event in snapshot.events if event["reason"] == "SuccessfulCreate"))
    made["lastTimestamp"] = "2026-11-22T17:00:00Z"
    diagnosis = verdict(replace(snapshot, events=(*snapshot.events, made)))
    assert diagnosis.phase is Phase.RUNNING


def test_end_not_seen_by_the_operator_becomes_the_verdict() -> None:
    for age, phase in [(20, Phase.RUNNING), (60, Phase.FAILED)]:
        snapshot = recorded("mpijob-unnoticed", age=age)
        snapshot.pods[2]["metadata"].pop("deletionTimestamp")
        diagnosis = verdict(replace(snapshot, events=()))
        assert diagnosis.phase is phase
        away = "the launcher has ended (Failed), but mpi-operator has not updated the job yet"
        assert away in [finding.message for finding in diagnosis.findings]


def test_refusal_is_not_reported_once_pods_run() -> None:
    refused, running = recorded("mpijob-quota"), recorded("mpijob-unschedulable")
    job = {**running.workload, "metadata": refused.workload["metadata"]}
    diagnosis = verdict(Snapshot(job, running.children, running.pods, refused.events, 5))
    assert "QuotaExceeded" not in [finding.reason for finding in diagnosis.findings]


def test_retry_is_reported_without_blocking() -> None:
    snapshot = recorded("mpijob-memory")
    job = deepcopy(snapshot.workload)
    job["status"]["conditions"] = job["status"]["conditions"][:1]
    job["spec"]["runPolicy"]["backoffLimit"] = 2
    running = recorded("mpijob-unschedulable").pods[0]
    running["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
    children = [{**child, "status": {"active": 1, "failed": 1}} for child in snapshot.children]
    diagnosis = verdict(Snapshot(job, tuple(children), (*snapshot.pods, running), (), 5))
    assert diagnosis.phase is Phase.RUNNING
    assert [(finding.reason, finding.blocks) for finding in diagnosis.findings] == [("Retried", False)]
    assert "attempt 1 of 3" in diagnosis.findings[0].message


def test_evicted_worker_is_reported_after_its_deletion() -> None:
    snapshot = recorded("mpijob-unschedulable")
    evicted = deepcopy(snapshot.pods[1])
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    seen = failure(evicted)
    assert seen
    diagnosis = verdict(recorded("mpijob-memory"), [seen])
    assert [finding.reason for finding in diagnosis.findings] == ["Error", "Evicted"]
    assert "low on resource: memory" in diagnosis.findings[1].message


def test_failed_worker_is_reported_while_the_launcher_waits() -> None:
    snapshot = recorded("mpijob-unschedulable")
    launcher, worker = deepcopy(snapshot.pods[0]), deepcopy(snapshot.pods[1])
    terminated = {"exitCode": 128, "reason": "StartError", "message": "context canceled"}
    containers = [{"name": "worker", "state": {"terminated": terminated}}]
    worker["status"] = {"phase": "Failed", "containerStatuses": containers}
    diagnosis = verdict(replace(snapshot, pods=(launcher, worker), events=()))
    message = "container worker could not be started: context canceled"
    assert (diagnosis.phase, [(finding.message, finding.blocks) for finding in diagnosis.findings]) == (
        Phase.RUNNING,
        [(message, False)],
    )


def test_missing_config_map_has_hint_to_create_it() -> None:
    pod = deepcopy(recorded("pod-image").workload)
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
    pod["status"]["initContainerStatuses"][0]["state"] = {"waiting": waiting}
    finding = verdict(Snapshot(pod, pods=(pod,))).findings[0]
    assert (finding.reason, finding.hint) == (
        "CreateContainerConfigError",
        "create the configmap settings in this namespace",
    )


def starting(*events: tuple[str, str], last: str = "FailedMount") -> list[Finding]:
    """Return the findings on a pod that does not start and has these events; `last` is the reason of the last."""
    pod = deepcopy(recorded("pod-image").workload)
    for container in [*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"]]:
        container["state"] = {"waiting": {"reason": "ContainerCreating"}}
    events_of_pod = [
        {
            "metadata": {"name": "e", "creationTimestamp": time},
            "involvedObject": {"uid": pod["metadata"]["uid"]},
            "type": "Warning",
            "reason": "FailedMount",
            "message": message,
        }
        for time, message in events
    ]
    events_of_pod[-1]["reason"] = last
    return list(verdict(Snapshot(pod, pods=(pod,), events=tuple(events_of_pod))).findings)


def test_temporary_mount_failure_is_not_reported() -> None:
    for reason, reported in [("failed to sync configmap cache", False), ('configmap "x" not found', True)]:
        findings = starting(("2026-11-21T00:00:00Z", f'MountVolume.SetUp failed for volume "env" : {reason}'))
        assert bool(findings) is reported


def mount_failed(arguments: str, output: str, volume: str = "output") -> str:
    """Return the message of a kubelet of 1.34 when mount(8) fails; TARGET is the place in the pod."""
    target = f"/var/lib/kubelet/pods/353baff3-91df-4c94-afb1-9b7ca3f72f31/volumes/kubernetes.io~nfs/{volume}"
    message = (
        f'MountVolume.SetUp failed for volume "{volume}" : mount failed: exit status 32\nMounting command: mount\n'
        f"Mounting arguments: {arguments} TARGET\nOutput: {output}\n"
    )
    return message.replace("TARGET", target)


NO_HELPER = "bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program."


@pytest.mark.parametrize(
    ("output", "why", "hint"),
    [
        ("mount.nfs: access denied by server while mounting nas:/a b", "access denied by server", "be exported"),
        (
            "mount.nfs: mounting nas:/a b failed, reason given by server: No such file or directory",
            "mounting nas:/a b failed, reason given by server: No such file or directory",
            "the folder must exist on the server",
        ),
        (
            "mount.nfs: Failed to resolve server nas: Name or service not known",
            "Failed to resolve server nas: Name or service not known",
            "NFS_SERVER in site.env",
        ),
        (f"mount: TARGET: {NO_HELPER}", NO_HELPER, "nfs-common"),
    ],
)
def test_unmountable_share_is_reported_with_a_hint(output: str, why: str, hint: str) -> None:
    for arguments in [
        "-t nfs nas:/a b",
        "-t nfs -o ro,vers=3 nas:/a b",
        "--description=Kubernetes transient mount for TARGET --scope -- mount -t nfs nas:/a b",
    ]:
        [finding] = starting(("2026-11-21T00:00:00Z", mount_failed(arguments, output)))
        assert (finding.reason, finding.message) == ("FailedMount", f"nas:/a b cannot be mounted: {why}")
        assert hint in str(finding.hint)


def test_only_volumes_still_unmounted_are_reported() -> None:
    dataset, model, output = (mount_failed(f"-t nfs nas:/{folder}", "mount.nfs: no") for folder in "dmo")
    findings = starting(
        ("2026-11-21T00:00:00Z", output),
        ("2026-11-21T00:01:10Z", model),
        ("2026-11-21T00:02:40Z", dataset),
        ("2026-11-21T00:02:41Z", "Unable to attach or mount volumes: unmounted volumes=[dataset model output]"),
    )
    assert [finding.message for finding in findings] == [f"nas:/{folder} cannot be mounted: no" for folder in "dm"]


def test_share_mounted_later_is_not_reported() -> None:
    [finding] = starting(
        ("2026-11-21T00:00:00Z", mount_failed("-t nfs nas:/o", "mount.nfs: no")),
        ("2026-11-21T00:00:01Z", "failed to set up the network"),
        last="FailedCreatePodSandBox",
    )
    assert (finding.reason, finding.message) == ("FailedCreatePodSandBox", "failed to set up the network")


def test_findings_are_grouped_by_message_without_pod_names() -> None:
    findings = [Finding("R", f"pod/w-{index}", f"w-{index} is late") for index in range(3)]
    assert [(finding.subject, finding.others) for finding in grouped(findings)] == [("pod/w-0", 2)]


def test_exit_code_137_has_hint_about_the_memory_limit() -> None:
    for code, named in [(137, ["64Mi"]), (1, [])]:
        container = {"name": "main", "resources": {"limits": {"memory": "64Mi"}}}
        ended = {"name": "main", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
        pod = {
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {"containers": [container]},
            "status": {"phase": "Failed", "containerStatuses": [ended]},
        }
        finding = failure(pod)
        assert finding
        assert re.findall(r"64Mi", finding.hint or "") == named
