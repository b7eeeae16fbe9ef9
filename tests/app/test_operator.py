"""Tests of the use case `packager.app.operator`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app import operator
from packager.base.errors import ClusterError
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


def test_operator_uninstall_refuses_running_jobs_without_force(cluster: FakeCluster, kubectl: Kubectl) -> None:
    cluster.objects += [job("a"), job("b", "Succeeded")]
    with pytest.raises(ClusterError) as refused:
        operator.prepare_uninstall(kubectl, "mpi", None, keep_crds=False, force=False)
    assert str(refused.value) == "1 job is running: team/a"
    prepared = operator.prepare_uninstall(kubectl, "mpi", None, keep_crds=False, force=True)
    assert prepared.jobs == "with the CRD: 1 job is running and 1 ended; all of them will be deleted"
    assert prepared.objects == ("deployment/mpi-operator", "customresourcedefinition/mpijobs.kubeflow.org")
    assert operator.uninstall(prepared, timeout=60) is None
    assert [item["kind"] for item in cluster.objects] == ["Lease", "MPIJob", "MPIJob"]
