"""What mlpack makes of what a cluster says: recordings of a real one (Kubernetes 1.34.4, mpi-operator 0.8.0)."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from packager.cluster.diagnosis import diagnose, pod_failures
from packager.cluster.engines import ENGINES
from packager.cluster.pods import failure
from packager.cluster.snapshot import Snapshot
from packager.cluster.verdict import NEVER, Finding, Phase, Verdict, grouped

RECORDED = Path(__file__).parent / "recorded"


def recorded(case: str, *, age: float = 5) -> Snapshot:
    said = json.loads((RECORDED / f"{case}.json").read_text(encoding="utf-8"))
    return Snapshot(said["workload"], tuple(said["children"]), tuple(said["pods"]), tuple(said["events"]), age)


def verdict(snapshot: Snapshot, earlier: list[Finding] | None = None) -> Verdict:
    return diagnose(ENGINES[snapshot.workload["kind"]], snapshot, earlier or [])


@pytest.mark.parametrize(
    ("case", "phase", "reason", "words"),
    [
        ("pod-exit", Phase.FAILED, "Error", "container main ended with exit code 3"),
        ("pod-memory", Phase.FAILED, "OOMKilled", "container main took more memory than its limit of 64Mi"),
        ("pod-image", Phase.STUCK, "ErrImagePull", "the image docker.io/mpioperator/mpi-pi:nope cannot be pulled"),
        (
            "pod-unschedulable",
            Phase.STUCK,
            "Unschedulable",
            "no node can take it: 0/1 nodes are available: 1 Insufficient cpu",
        ),
        ("mpijob-unschedulable", Phase.STUCK, "Unschedulable", "1 Insufficient cpu"),
        ("mpijob-image", Phase.STUCK, "ErrImagePull", "network is unreachable"),
        ("mpijob-memory", Phase.FAILED, "Error", "a rank was killed"),
        ("mpijob-forbidden", Phase.STUCK, "PodSecurity", "the namespace enforces Pod Security restricted:latest"),
        (
            "mpijob-rejected",
            Phase.STUCK,
            "ValidationError",
            'spec.runPolicy.cleanPodPolicy: Unsupported value: "Sometimes"',
        ),
        ("mpijob-quota", Phase.STUCK, "QuotaExceeded", "asked for pods=1, used pods=1 of pods=1"),
    ],
)
def test_each_fault_is_told_by_its_reason(case: str, phase: Phase, reason: str, words: str) -> None:
    said = verdict(recorded(case))
    assert said.phase is phase
    assert said.findings[0].reason == reason
    assert words in said.findings[0].message


@pytest.mark.parametrize("case", ["pod-succeeded", "mpijob-succeeded"])
def test_a_good_end_needs_no_words(case: str) -> None:
    said = verdict(recorded(case))
    assert (said.phase, said.findings) == (Phase.SUCCEEDED, ())


def test_a_failure_shows_the_last_lines_of_the_container() -> None:
    assert verdict(recorded("pod-exit")).findings[0].log == ("rank 0: this script ends with 3",)


def test_a_rank_that_was_killed_is_told_of_the_workers_memory() -> None:
    assert "64Mi" in (verdict(recorded("mpijob-memory")).findings[0].hint or "")


def test_the_same_trouble_of_several_pods_is_one_finding() -> None:
    (finding,) = verdict(recorded("mpijob-image")).findings
    assert finding.others == 2
    assert str(finding).startswith("pod/fault-image-multi-node-launcher")


@pytest.mark.parametrize(
    ("case", "final"),
    [
        ("mpijob-rejected", 0),
        ("mpijob-forbidden", 0),
        ("mpijob-image", 15),
        ("mpijob-unschedulable", NEVER),
        ("mpijob-quota", NEVER),
    ],
)
def test_only_what_nobody_should_wait_for_becomes_final(case: str, final: float) -> None:
    assert verdict(recorded(case)).findings[0].final_after == final


def _untouched() -> dict[str, Any]:
    job = deepcopy(recorded("mpijob-rejected").workload)
    job.pop("status", None)
    return job


def test_a_job_that_nobody_acts_on_is_a_missing_operator_but_not_at_once() -> None:
    assert verdict(Snapshot(_untouched(), age=2)).phase is Phase.PENDING
    said = verdict(Snapshot(_untouched(), age=9))
    assert (said.phase, said.findings[0].reason) == (Phase.STUCK, "OperatorSilent")
    assert said.findings[0].final_after == NEVER


def test_a_quota_that_could_never_hold_the_pod_is_final() -> None:
    snapshot = recorded("mpijob-quota")
    for event in snapshot.events:
        event["message"] = (
            event["message"]
            .replace("requested: pods=1", "requested: pods=1,requests.cpu=4")
            .replace("limited: pods=1", "limited: pods=1,requests.cpu=1500m")
        )
    assert verdict(snapshot).findings[0].final_after == 0


def test_a_refusal_that_was_overcome_is_not_told_any_more() -> None:
    refused, running = recorded("mpijob-quota"), recorded("mpijob-unschedulable")
    job = {**running.workload, "metadata": refused.workload["metadata"]}
    said = verdict(Snapshot(job, running.children, running.pods, refused.events, 5))
    assert "QuotaExceeded" not in [finding.reason for finding in said.findings]


def test_a_retry_is_told_and_stops_nobody() -> None:
    snapshot = recorded("mpijob-memory")
    job = deepcopy(snapshot.workload)
    job["status"]["conditions"] = job["status"]["conditions"][:1]
    job["spec"]["runPolicy"]["backoffLimit"] = 2
    running = recorded("mpijob-unschedulable").pods[0]
    running["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
    children = [{**child, "status": {"active": 1, "failed": 1}} for child in snapshot.children]
    said = verdict(Snapshot(job, tuple(children), (*snapshot.pods, running), (), 5))
    assert said.phase is Phase.RUNNING
    assert [(finding.reason, finding.blocks) for finding in said.findings] == [("Retried", False)]
    assert "attempt 1 of 3" in said.findings[0].message


def test_an_evicted_worker_is_remembered_after_the_operator_has_cleaned_up() -> None:
    snapshot = recorded("mpijob-unschedulable")
    evicted = deepcopy(snapshot.pods[1])
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    (seen,) = pod_failures(Snapshot(snapshot.workload, pods=(evicted,)))
    said = verdict(recorded("mpijob-memory"), [seen])
    assert [finding.reason for finding in said.findings] == ["Error", "Evicted"]
    assert "low on resource: memory" in said.findings[1].message


def test_a_crash_loop_shows_what_the_container_said() -> None:
    pod = deepcopy(recorded("pod-exit").workload)
    ended = pod["status"]["containerStatuses"][0]
    ended["lastState"] = ended["state"]
    ended["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
    pod["status"]["phase"] = "Running"
    said = verdict(Snapshot(pod, pods=(pod,)))
    assert (said.phase, said.findings[0].reason) == (Phase.STUCK, "CrashLoopBackOff")
    assert said.findings[0].log == ("rank 0: this script ends with 3",)


def test_a_missing_config_map_says_what_to_create() -> None:
    pod = deepcopy(recorded("pod-image").workload)
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
    pod["status"]["initContainerStatuses"][0]["state"] = {"waiting": waiting}
    finding = verdict(Snapshot(pod, pods=(pod,))).findings[0]
    assert (finding.reason, finding.hint) == (
        "CreateContainerConfigError",
        "create the configmap settings in this namespace",
    )


def starting(*events: tuple[str, str], last: str = "FailedMount") -> list[Finding]:
    """Return what is found of a pod that does not start and has these events; `last` is the reason of the last."""
    pod = deepcopy(recorded("pod-image").workload)
    for container in [*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"]]:
        container["state"] = {"waiting": {"reason": "ContainerCreating"}}
    told = [
        {
            "metadata": {"name": "e", "creationTimestamp": time},
            "involvedObject": {"uid": pod["metadata"]["uid"]},
            "type": "Warning",
            "reason": "FailedMount",
            "message": message,
        }
        for time, message in events
    ]
    told[-1]["reason"] = last
    return list(verdict(Snapshot(pod, pods=(pod,), events=tuple(told))).findings)


@pytest.mark.parametrize(
    ("said", "reported"), [("failed to sync configmap cache", False), ('configmap "x" not found', True)]
)
def test_a_mount_that_only_takes_a_moment_is_no_finding(said: str, reported: bool) -> None:  # noqa: FBT001
    found = starting(("2026-11-21T00:00:00Z", f'MountVolume.SetUp failed for volume "env" : {said}'))
    assert bool(found) is reported


def mount_failed(arguments: str, output: str, volume: str = "output") -> str:
    """Return what a kubelet of 1.34 says when mount(8) fails; TARGET is the place in the pod."""
    target = f"/var/lib/kubelet/pods/353baff3-91df-4c94-afb1-9b7ca3f72f31/volumes/kubernetes.io~nfs/{volume}"
    said = (
        f'MountVolume.SetUp failed for volume "{volume}" : mount failed: exit status 32\nMounting command: mount\n'
        f"Mounting arguments: {arguments} TARGET\nOutput: {output}\n"
    )
    return said.replace("TARGET", target)


NO_HELPER = "bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program."


@pytest.mark.parametrize(
    ("output", "why", "hint"),
    [
        ("mount.nfs: access denied by server while mounting nas:/a b", "access denied by server", "has to export it"),
        (
            "mount.nfs: mounting nas:/a b failed, reason given by server: No such file or directory",
            "mounting nas:/a b failed, reason given by server: No such file or directory",
            "the folder has to be on the server",
        ),
        (
            "Running scope as unit: run-r6b6f.scope\nmount.nfs: Connection timed out",
            "Connection timed out",
            "NFS_SERVER in site.env",
        ),
        (
            "mount.nfs: Failed to resolve server nas: Name or service not known",
            "Failed to resolve server nas: Name or service not known",
            "NFS_SERVER in site.env",
        ),
        ("mount: TARGET: unknown filesystem type 'nfs'.", "unknown filesystem type 'nfs'.", "nfs-common"),
        (f"mount: TARGET: {NO_HELPER}", NO_HELPER, "nfs-common"),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [
        "-t nfs nas:/a b",
        "-t nfs -o ro,vers=3 nas:/a b",
        "--description=Kubernetes transient mount for TARGET --scope -- mount -t nfs nas:/a b",
    ],
)
def test_a_share_that_cannot_be_mounted(arguments: str, output: str, why: str, hint: str) -> None:
    [finding] = starting(("2026-11-21T00:00:00Z", mount_failed(arguments, output)))
    assert (finding.reason, finding.message) == ("FailedMount", f"nas:/a b cannot be mounted: {why}")
    assert hint in str(finding.hint)


def test_every_volume_that_cannot_be_mounted_is_told_and_none_that_is_there_by_now() -> None:
    dataset, model, output = (mount_failed(f"-t nfs nas:/{folder}", "mount.nfs: no") for folder in "dmo")
    found = starting(
        ("2026-11-21T00:00:00Z", output),
        ("2026-11-21T00:01:10Z", model),
        ("2026-11-21T00:02:40Z", dataset),
        ("2026-11-21T00:02:41Z", "Unable to attach or mount volumes: unmounted volumes=[dataset model output]"),
    )
    assert [finding.message for finding in found] == [f"nas:/{folder} cannot be mounted: no" for folder in "dm"]


def test_a_share_that_was_mounted_after_all_is_no_finding() -> None:
    [finding] = starting(
        ("2026-11-21T00:00:00Z", mount_failed("-t nfs nas:/o", "mount.nfs: no")),
        ("2026-11-21T00:00:01Z", "failed to set up the network"),
        last="FailedCreatePodSandBox",
    )
    assert (finding.reason, finding.message) == ("FailedCreatePodSandBox", "failed to set up the network")


def test_what_cannot_be_mounted_otherwise_has_no_hint_about_a_server() -> None:
    [finding] = starting(("2026-11-21T00:00:00Z", mount_failed("-t ext4 /dev/sdb", "mount: TARGET: no medium found.")))
    assert (finding.message, finding.hint) == ("/dev/sdb cannot be mounted: no medium found.", None)


def test_events_of_an_earlier_job_of_the_same_name_are_not_believed() -> None:
    snapshot = recorded("mpijob-rejected")
    job = deepcopy(snapshot.workload)
    job["metadata"]["uid"] = "another"
    assert verdict(Snapshot(job, events=snapshot.events, age=1)).phase is Phase.PENDING


def test_findings_are_grouped_by_what_they_say_whatever_the_pods_name() -> None:
    findings = [Finding("R", f"pod/w-{index}", f"w-{index} is late") for index in range(3)]
    assert [(finding.subject, finding.others) for finding in grouped(findings)] == [("pod/w-0", 2)]


@pytest.mark.parametrize(("code", "named"), [(137, ["64Mi"]), (1, [])])
def test_a_kill_names_the_limit_also_when_the_runtime_does_not_say_why(code: int, named: list[str]) -> None:
    container = {"name": "main", "resources": {"limits": {"memory": "64Mi"}}}
    ended = {"name": "main", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [container]},
        "status": {"phase": "Failed", "containerStatuses": [ended]},
    }
    found = failure(pod)
    assert found
    assert re.findall(r"64Mi", found.hint or "") == named
