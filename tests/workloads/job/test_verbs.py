"""A Job by the verbs that ask a cluster, which is made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fake_cluster import healthy, item
from tests.life import ENDED_WITH_3, JOB

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.fake_cluster import Object
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

WHERE = ("hello-mpi", "-n", "team")
DEPLOY = ("deploy", *WHERE, "--no-verify")
SHOWN = f"job/{JOB}"


@pytest.fixture
def cluster(life: Life) -> Life:
    """The made-up cluster, for a package whose first overlay is a Job of two attempts."""
    life.served["batch/v1"] = ["Job"]
    *rest, pod = life.overlays["single-node"]
    template = {"metadata": {"labels": {"team": "a"}}, "spec": pod["spec"]}
    labels = {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/name": "hello-mpi"}
    metadata = {"name": JOB, "labels": labels}
    spec = {"backoffLimit": 1, "template": template}
    life.overlays["multi-node"] = [
        *rest,
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec},
    ]
    return life


def attempt(number: int, state: Object | None = None, phase: str = "Running") -> Object:
    """Return the pod of an attempt, which runs when no other state is given."""
    metadata = {
        "labels": {"job-name": JOB},
        "ownerReferences": [{"kind": "Job", "name": JOB, "uid": f"Job-{JOB}"}],
        "creationTimestamp": f"2026-11-21T00:00:0{number}Z",
    }
    containers = [{"name": "main", "image": "a:1", "state": state or {"running": {}}, "restartCount": 0}]
    status = {"phase": phase, "containerStatuses": containers}
    return item("Pod", f"{JOB}-abcd{number}", metadata=metadata, spec={"containers": [{"name": "main"}]}, status=status)


def fail_twice(life: Life) -> None:
    """Let both attempts fail, and the Job with them."""
    life.objects += [attempt(number, ENDED_WITH_3, "Failed") for number in (1, 2)]
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    life.find("Job", JOB)["status"] = {"failed": 2, "conditions": [failed]}


def complete(life: Life) -> None:
    """Let the Job end well."""
    life.objects = [obj for obj in life.objects if obj["kind"] != "Pod"]
    life.objects.append(attempt(1, {"terminated": {"exitCode": 0, "reason": "Completed"}}, "Succeeded"))
    life.find("Job", JOB)["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}


def test_status_lists_last_attempt_first(mlpack: Mlpack, cluster: Life) -> None:
    cluster._make(cluster.overlays["multi-node"])
    fail_twice(cluster)
    answer = mlpack("status", *WHERE, "-o", "json").json
    assert (answer["phase"], answer["summary"]) == ("failed", "the pod has failed in each of 2 attempts")
    assert [(finding["reason"], finding["subject"]) for finding in answer["findings"]] == [
        ("Error", f"pod/{JOB}-abcd2"),
        ("Retried", f"pod/{JOB}-abcd1"),
    ]


def test_status_and_delete_find_the_job(mlpack: Mlpack, cluster: Life) -> None:
    cluster._make(cluster.overlays["multi-node"])
    complete(cluster)
    [deployment] = mlpack("status", "-A", "-o", "json").json["deployments"]
    assert (deployment["workload"], deployment["ended"]) == (SHOWN, "succeeded")
    assert mlpack("delete", *WHERE, "-y").code == 0
    assert [obj for obj in cluster.objects if obj["kind"] == "Job"] == []


def test_doctor_tries_admission_of_the_pod(mlpack: Mlpack, cluster: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.objects = healthy().objects
    trials: list[dict[str, Any]] = []
    create = cluster._create  # noqa: SLF001 - what a dry run is given, and leaves nowhere

    def keep(manifest: dict[str, Any]) -> Any:
        trials.append(manifest)
        return create(manifest)

    monkeypatch.setattr(cluster, "_create", keep)
    answer = mlpack("doctor", *WHERE, "--allow", "label:team", "-o", "json").json
    assert [finding for finding in answer["findings"] if finding["state"] == "fails"] == []
    [labels] = [trial["metadata"]["labels"] for trial in trials if trial["kind"] == "Pod"]
    assert labels == {"team": "a"}


def test_next_attempt_is_reported_until_the_timeout(mlpack: Mlpack, cluster: Life) -> None:
    """The pod's clock is ahead, so that the next attempt is still to come."""
    ended = {"terminated": {**ENDED_WITH_3["terminated"], "finishedAt": "2126-11-21T00:00:05Z"}}
    cluster.moments = [lambda: cluster.objects.append(attempt(1, ended, "Failed"))]
    done = mlpack(*DEPLOY, "--timeout", "30s")
    assert done.code == 8
    assert f"00:00  pod/{JOB}-abcd1: next try: not before 00:00:15 UTC\n" in done.stderr
    assert done.stderr.count("next try") == 1
    done = mlpack("status", *WHERE)
    assert done.code == 0
    assert "\n  next try: not before 00:00:15 UTC\n" in done.stdout
    [finding] = mlpack("status", *WHERE, "-o", "json").json["findings"]
    assert finding["nextTry"] == "2126-11-21T00:00:15Z"
