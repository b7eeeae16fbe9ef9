"""Back-offs of minutes: recordings of a kubelet 1.35 on a node without a way to any registry, and changed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.kubernetes.verdict import NEVER, Phase
from tests.diagnosis.test_diagnose import recorded, verdict

if TYPE_CHECKING:
    from datetime import datetime

    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Finding

UNREACHABLE = (
    'Head "https://registry-1.docker.io/v2/foo/{}/manifests/1": dial tcp: lookup registry-1.docker.io on '
    "10.255.255.53:53: dial udp 10.255.255.53:53: connect: network is unreachable"
)


def only(snapshot: Snapshot) -> Finding:
    """Return the only finding on a workload that is stuck."""
    diagnosis = verdict(snapshot)
    assert diagnosis.phase is Phase.STUCK
    (finding,) = diagnosis.findings
    assert diagnosis.summary == finding.message
    return finding


def shown(time: datetime | None) -> str | None:
    return None if time is None else f"{time:%H:%M:%S}"


def test_back_off_of_a_crashing_container_reports_the_next_start() -> None:
    finding = only(recorded("deployment-back-off", age=561))
    assert (finding.reason, finding.message) == (
        "CrashLoopBackOff",
        "container main ended with exit code 3, again and again",
    )
    assert (finding.log, finding.final_after) == (("model: no such file",), 30)
    assert shown(finding.next_try) == "20:54:18"  # it ended at 20:49:18, and is held back for 5m0s
    assert finding.as_json()["nextTry"] == "2026-11-24T20:54:18Z"


@pytest.mark.parametrize(
    ("pause", "expected"),
    [
        ("1h0m0s", "21:49:18"),
        ("2.5s", "20:49:20"),
        ("soon", None),
    ],
)
def test_next_start_follows_from_the_words_of_the_kubelet(pause: str, expected: str | None) -> None:
    snapshot = recorded("deployment-back-off")
    waiting = snapshot.pods[0]["status"]["containerStatuses"][0]["state"]["waiting"]
    waiting["message"] = waiting["message"].replace("5m0s", pause)
    assert shown(only(snapshot).next_try) == expected


def test_image_removed_before_a_restart_is_the_obstacle() -> None:
    """The kubelet calls this CrashLoopBackOff at times, and the status names the image by another of its tags."""
    snapshot = recorded("deployment-image-removed", age=277)
    container = snapshot.pods[0]["status"]["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    container["image"] = "docker.io/foo/hello-mpi:1"
    finding = only(snapshot)
    message = f"the image docker.io/foo/gone:1 cannot be pulled: {UNREACHABLE.format('gone')}"
    assert (finding.reason, finding.message, finding.final_after) == ("ErrImagePull", message, 15)
    assert finding.hint == "the node cannot reach the registry: check REGISTRY in mlops.env"
    assert shown(finding.next_try) == "20:48:32"  # after 4 tries: 10, 20, 40 and 80 s


def test_container_that_ended_after_the_last_failed_pull_crashes() -> None:
    snapshot = recorded("deployment-image-removed")
    container = snapshot.pods[0]["status"]["containerStatuses"][0]
    container["lastState"]["terminated"]["finishedAt"] = "2026-11-24T20:47:30Z"
    assert only(snapshot).reason == "CrashLoopBackOff"


def test_image_that_was_pulled_again_is_not_the_obstacle() -> None:
    snapshot = recorded("deployment-image-removed")
    (pulled,) = (event for event in snapshot.events if event["reason"] == "Pulled")
    pulled["lastTimestamp"] = "2026-11-24T20:47:30Z"
    assert only(snapshot).reason == "CrashLoopBackOff"


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (277, "20:49:20"),
        (600, None),
    ],
)
def test_next_pull_is_reported_until_it_is_due(age: float, expected: str | None) -> None:
    """After some minutes, the kubelet drops most of its events, and the next pull is not known any more."""
    finding = only(recorded("job-image", age=age))
    assert finding.message == f"the image docker.io/foo/absent:1 cannot be pulled: {UNREACHABLE.format('absent')}"
    assert (shown(finding.next_try), finding.final_after) == (expected, 15)


def test_next_pull_is_at_most_five_minutes_after_the_last_one() -> None:
    snapshot = recorded("job-image", age=277)
    for event in snapshot.events:
        if event["message"].startswith("Failed to pull image"):
            event["count"] = 4000
    assert shown(only(snapshot).next_try) == "20:51:40"


@pytest.mark.parametrize(
    ("age", "last"),
    [
        (167, "20:56:13"),
        (168, None),
    ],
)
def test_job_reports_its_next_attempt(age: float, last: str | None) -> None:
    """The pauses are 10, 20, 40 and 80 s, and at most 10 minutes."""
    diagnosis = verdict(recorded("job-retried", age=age))
    assert (diagnosis.phase, diagnosis.summary) == (Phase.RUNNING, "pods: 4 error")
    assert [(finding.reason, finding.final_after) for finding in diagnosis.findings] == [("Retried", NEVER)] * 4
    assert [shown(finding.next_try) for finding in diagnosis.findings] == [None, None, None, last]


def test_job_that_has_ended_has_no_next_attempt() -> None:
    snapshot = recorded("job-retried", age=104)
    snapshot.workload["status"]["conditions"] = [{"type": "FailureTarget", "status": "True", "reason": "x"}]
    assert {finding.next_try for finding in verdict(snapshot).findings} == {None}
