"""Tests of the use case `packager.app.operator`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app import operator
from packager.base.errors import TimedOutError
from packager.kubernetes.kubectl.client import Kubectl
from tests.cluster.test_operator import crd, deployment, installed, job
from tests.fake_cluster import FakeCluster, Object, lease

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster([installed(crd("v2beta1")), installed(deployment()), lease()])


@pytest.fixture
def kubectl(cluster: FakeCluster) -> Kubectl:
    return Kubectl(runner=cluster)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "operator.yaml"
    path.write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: mpi-operator, namespace: mpi-operator}\n")
    return path


def test_operator_install_waits_until_ready(cluster: FakeCluster, kubectl: Kubectl, manifest: Path) -> None:
    notes: list[str] = []
    applied = operator.install(kubectl, "mpi", manifest, dry_run=None, force_conflicts=False, tell=notes.append)
    assert (applied.operator.name, applied.output) == ("mpi-operator", "apply\n")
    gone = cluster.objects.pop(1)
    cluster.wait = lambda _seconds: cluster.objects.append(gone)
    assert operator.wait_until_ready(applied, timeout=60, tell=notes.append) == ("v2beta1",)
    assert notes == [
        f"note: {manifest} differs from upstream's manifest of v0.8.0",
        "waiting: deployment/mpi-operator does not exist yet",
    ]


def test_operator_wait_times_out(cluster: FakeCluster, kubectl: Kubectl, manifest: Path) -> None:
    notes: list[str] = []
    del cluster.objects[1]
    applied = operator.install(kubectl, "mpi", manifest, dry_run=None, force_conflicts=False, tell=notes.append)
    with pytest.raises(TimedOutError) as late:
        operator.wait_until_ready(applied, timeout=60, tell=notes.append)
    assert str(late.value) == "the operator is not ready after 60 s: deployment/mpi-operator does not exist yet"
    assert 60 < cluster.clock() < 65


def test_operator_status_returns_value(cluster: FakeCluster, kubectl: Kubectl) -> None:
    cluster.objects += [job("a"), job("b", "Succeeded")]
    state = operator.status(kubectl, "mpi")
    assert state.exit_code == 0
    assert state.as_json() == {
        "operator": "mpi-operator",
        "crd": "mpijobs.kubeflow.org",
        "served": ["v2beta1"],
        "alive": "yes",
        "evidence": "its lease mpi-operator/mpi-operator is renewed by operator-1",
        "image": "mpioperator/mpi-operator:0.8.0",
        "jobs": {"running": 1, "ended": 1},
        "tried": "v0.8.0",
    }


@pytest.mark.parametrize(("version", "rest"), [("v2beta1", []), ("v1", [lease()])], ids=["away", "another version"])
def test_operator_status_exit_code_is_7_if_operator_runs_no_package(
    cluster: FakeCluster, kubectl: Kubectl, version: str, rest: list[Object]
) -> None:
    cluster.objects = [installed(crd(version)), *rest]
    assert operator.status(kubectl, "mpi").exit_code == 7


def test_operator_status_exit_code_is_6_without_permission(cluster: FakeCluster, kubectl: Kubectl) -> None:
    cluster.denied = {"list deployments", "list leases"}
    assert operator.status(kubectl, "mpi").exit_code == 6
