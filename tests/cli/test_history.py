"""Tests of `mlpack history`: its text, JSON and exit codes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.life import JOB, POD

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]


HISTORY = ("history", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"


def build(life: Life, digest: str, **fields: Any) -> None:
    """Deploy the pod as bob@laptop, from the build with this digest."""
    notes = {"mlpack/digest": digest, "mlpack/deployed-by": "bob@laptop"}
    life.deploy("single-node")["metadata"] |= {"annotations": notes, **fields}


def test_history_reports_that_nothing_is_deployed(mlpack: Mlpack, life: Life) -> None:
    done = mlpack(*HISTORY)
    assert (done.code, done.stdout, done.stderr) == (0, "", "nothing of hello-mpi is deployed\n")
    assert all("app.kubernetes.io/name=hello-mpi" in call for call in life.calls)


def test_history_shows_build_of_each_deployment(mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    package_digest = json.loads(mlpack(*HISTORY, "-o", "json").stdout)["digest"]
    build(life, "sha256:0123456789abcdef", creationTimestamp="2026-11-21T12:00:00Z")
    life.deploy()["metadata"] |= {"creationTimestamp": "2026-11-21T13:00:00Z"}
    life.end()
    assert [line.split("  ") for line in _columns(mlpack(*HISTORY).stdout)] == [
        ["DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY"],
        ["2026-11-21 13:00", "team", MPIJOB, "succeeded", "applied by kubectl", "-"],
        ["2026-11-21 12:00", "team", f"pod/{POD}", "-", "0123456789ab", "bob@laptop"],
    ]
    build(life, package_digest)
    assert f"{package_digest[7:19]} (this one)  bob@laptop\n" in mlpack(*HISTORY).stdout
    life.find("Pod", POD)["metadata"]["annotations"]["mlpack/version"] = "1.2.0"
    assert f"1.2.0 {package_digest[7:19]} (this one)  bob@laptop\n" in mlpack(*HISTORY).stdout


def test_history_works_without_operator(mlpack: Mlpack, life: Life) -> None:
    del life.served["kubeflow.org/v2beta1"]
    done = mlpack(*HISTORY)
    assert (done.code, done.stderr) == (0, "nothing of hello-mpi is deployed\n")
    assert [call for call in life.calls if "--raw" in call] == ["get --raw /readyz", "get --raw /apis/kubeflow.org"] * 2


def _columns(text: str) -> list[str]:
    return [re.sub("  +", "  ", line) for line in text.splitlines()]


def test_history_reports_why_jobs_cannot_be_listed(mlpack: Mlpack, life: Life) -> None:
    refusal = 'mpijobs.kubeflow.org is forbidden: User "me" cannot list resource'
    life.refused["get mpijobs"] = f"Error from server (Forbidden): {refusal}"
    done = mlpack(*HISTORY)
    assert (done.code, done.stderr) == (7, f"error: {refusal}\n")


NO_JOBS = 'mpijobs.kubeflow.org is forbidden: User "me" cannot list resource "mpijobs" in API group "" in the namespace'


def test_history_lists_permitted_kinds_and_names_forbidden_kinds(mlpack: Mlpack, life: Life) -> None:
    build(life, "sha256:0123456789abcdef", creationTimestamp="2026-11-21T12:00:00Z")
    life.denied.add("list mpijobs")
    done = mlpack(*HISTORY)
    assert (done.code, done.stderr) == (0, f"mpijobs.kubeflow.org are not among these: {NO_JOBS}\n")
    assert f"pod/{POD}" in done.stdout
    answer = json.loads(mlpack(*HISTORY, "-o", "json").stdout)
    assert answer["unseen"] == {"mpijobs.kubeflow.org": NO_JOBS}
    assert [deployment["workload"] for deployment in answer["deployments"]] == [f"pod/{POD}"]


def test_status_without_package_lists_all_deployments(mlpack: Mlpack, life: Life) -> None:
    assert mlpack("status", "-n", "team").stderr == "nothing is deployed in this namespace; -A looks in all\n"
    assert mlpack("deploy", "hello-mpi", "-n", "team", "--yes", "--no-verify", "--no-wait").code == 0
    listed = mlpack("status", "-n", "team")
    assert [line.split()[3] for line in listed.stdout.splitlines()[1:]] == [f"mpijob/{JOB}"]
    (row,) = mlpack("status", "-A", "-o", "json").json["deployments"]
    assert (row["package"], row["workload"], row["ended"]) == ("hello-mpi", f"mpijob/{JOB}", None)
    assert mlpack("status", "-A", "--watch").code == 2
    assert life.calls
