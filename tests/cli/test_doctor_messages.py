"""Tests of rare findings of `mlpack doctor`, and of checks that are unknown because the cluster does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.cli.host import Host
from packager.kubernetes.kubectl.refusals import explained_error
from tests.cli.test_doctor import Report
from tests.fake_cluster import healthy, item
from tests.life import JOB

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Mlpack
    from tests.life import Life


AWAY = "Unable to connect to the server: EOF"
NO_ANSWER = (f"the cluster does not answer: {AWAY}", "kubectl cluster-info")


@pytest.fixture
def doctor(mlpack: Mlpack, life: Life) -> Callable[[], Report]:
    """A function that runs the doctor for hello-mpi in a healthy cluster, and returns the report."""
    life.objects = healthy().objects
    return lambda: Report(mlpack("doctor", "hello-mpi", "-n", "team", "-o", "json"))


@pytest.mark.parametrize(
    ("asked", "unknown"),
    [
        ("get", {"kinds", "permissions"}),
        ("get pods", {"nodes"}),
        ("create", {"admission"}),
    ],
)
def test_doctor_reports_checks_as_unknown_when_cluster_stops_answering(
    doctor: Callable[[], Report], life: Life, asked: str, unknown: set[str]
) -> None:
    life.refused[asked] = AWAY
    report = doctor()
    assert (report.code, set(report.not_ok())) == (6, {(check, "unknown") for check in unknown})
    assert all(report.of(check)[-1] == NO_ANSWER for check in unknown)


def test_doctor_reports_invalid_pod_security_level_of_namespace(doctor: Callable[[], Report], life: Life) -> None:
    life.objects[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "strict"
    report = doctor()
    assert report.code == 0
    assert report.of("namespace") == [("team; it enforces strict, which is not a level", None)]


def test_doctor_accepts_unchanged_existing_job(mlpack: Mlpack, doctor: Callable[[], Report], life: Life) -> None:
    mlpack.host = Host(life, "ann@desk")
    assert mlpack("deploy", "hello-mpi", "-n", "team", "--no-wait").code == 0
    report = doctor()
    assert report.code == 0
    message = "hello-mpi-multi-node already exists, deployed by ann@desk, and is up to date"
    assert report.of("names") == [(message, None)]


@pytest.mark.parametrize(
    ("happens", "how"),
    [
        (lambda life: life.end(), "has already run"),
        (lambda life: life.overlays["multi-node"][0]["data"].update(A="1"), "already exists with a different spec"),
        (lambda life: life.find("MPIJob", JOB)["metadata"].update(deletionTimestamp="x"), "is being deleted"),
    ],
    ids=["ended", "changed", "going"],
)
def test_doctor_fails_for_ended_changed_or_terminating_job(
    mlpack: Mlpack,
    doctor: Callable[[], Report],
    life: Life,
    happens: Callable[[Life], object],
    how: str,
) -> None:
    mlpack.host = Host(life, "ann@desk")
    assert mlpack("deploy", "hello-mpi", "-n", "team", "--no-wait").code == 0
    happens(life)
    report = doctor()
    assert (report.code, report.not_ok()) == (1, [("names", "fails")])
    fix = f"kubectl delete mpijobs.kubeflow.org/{JOB} -n team"
    assert report.of("names") == [(f"{JOB} {how}, deployed by ann@desk", fix)]


def test_doctor_reports_nodes_as_unknown_without_permission_to_list_pods(
    doctor: Callable[[], Report], life: Life
) -> None:
    life.denied = {"list pods"}
    report = doctor()
    assert ("nodes", "unknown") in report.not_ok()
    message, fix = report.of("nodes")[0]
    assert message.startswith("1 node could take 1 launcher of ")
    assert message.endswith("; you are not allowed to see what runs on them")
    assert fix == "kubectl auth can-i list pods -A"


def test_doctor_accepts_available_operator_deployment_without_lease(doctor: Callable[[], Report], life: Life) -> None:
    available = {"conditions": [{"type": "Available", "status": "True"}]}
    life.objects = [obj for obj in life.objects if obj["kind"] != "Lease"]
    life.objects.append(item("Deployment", "mpi-operator", status=available))
    assert doctor().of("operator") == [("mpi-operator is running: its Deployment team/mpi-operator is available", None)]


def test_doctor_quotes_names_in_proposed_commands(mlpack: Mlpack, life: Life) -> None:
    life.objects = healthy().objects
    workload = next(item for item in life.overlays["single-node"] if item["kind"] == "Pod")
    workload["spec"]["volumes"].append({"name": "x", "persistentVolumeClaim": {"claimName": "x; touch pwned"}})
    workload["spec"]["imagePullSecrets"] = [{"name": "$(id)"}]
    fixes = [
        finding["fix"]
        for finding in mlpack("doctor", "hello-mpi", "--overlay", "single-node", "-n", "a b", "-o", "json").json[
            "findings"
        ]
    ]
    assert "kubectl get pvc -n 'a b'" in fixes
    login = "--docker-server=HOST --docker-username=YOU"
    assert f"kubectl create secret docker-registry '$(id)' {login} -n 'a b'" in fixes
    assert (
        explained_error('Error from server (NotFound): namespaces "a;b" not found').hint
        == "kubectl create namespace 'a;b'"
    )
