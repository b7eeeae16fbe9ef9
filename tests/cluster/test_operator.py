from pathlib import Path
from typing import Any

import pytest

from packager.cli.host import Host
from packager.workloads.mpijob.life import MPI_OPERATOR
from tests.conftest import Mlpack
from tests.fake_cluster import FakeCluster, item, lease

MPI = MPI_OPERATOR


def crd() -> dict[str, Any]:
    conditions = [{"type": "Established", "status": "True"}]
    versions = [{"name": "v2beta1", "served": True}]
    name = "CustomResourceDefinition"
    return item(name, MPI.crd, spec={"versions": versions}, status={"conditions": conditions})


def deployment() -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"image": "mpioperator/mpi-operator:0.8.0"}]}}}
    return item("Deployment", MPI.name, metadata={"namespace": MPI.name}, spec=spec)


def job(name: str, *conditions: str) -> dict[str, Any]:
    return item(
        "MPIJob", name, status={"conditions": [{"type": condition, "status": "True"} for condition in conditions]}
    )


@pytest.fixture
def cluster(mlpack: Mlpack) -> FakeCluster:
    cluster = FakeCluster([crd(), deployment(), lease()])
    mlpack.host = Host(cluster)
    return cluster


def test_operator_status_shows_versions_lease_image_and_jobs(mlpack: Mlpack, cluster: FakeCluster) -> None:
    cluster.objects += [job("one", "Running"), job("two", "Succeeded"), job("three", "Failed")]
    done = mlpack("operator", "status", "mpi")
    assert done.code == 0
    assert done.stdout.splitlines() == [
        "serves  mpijobs.kubeflow.org v2beta1 (as packages need it)",
        "alive   yes: its lease mpi-operator/mpi-operator is renewed by operator-1",
        "image   mpioperator/mpi-operator:0.8.0; tested with v0.8.0",
        "jobs    1 running, 2 ended",
    ]
    answer = mlpack("operator", "status", "mpi", "-o", "json").json
    assert (answer["served"], answer["alive"], answer["jobs"]) == (["v2beta1"], "yes", {"running": 1, "ended": 2})


def test_operator_status_exits_with_7_without_a_crd(mlpack: Mlpack, cluster: FakeCluster) -> None:
    cluster.objects.clear()
    done = mlpack("operator", "status", "mpi")
    assert done.code == 7
    assert "serves  nothing: mpijobs.kubeflow.org is not installed" in done.stdout
    digest = f"  the file's sha256: {MPI.sha256}\n"
    assert done.stderr == f"hint: kubectl apply --server-side -f {MPI.url}\n{digest}"
    Path("my config").touch()
    where = ("--context", "a b", "--kubeconfig", "my config", "--kubectl", "./kubectl")
    done = mlpack("operator", "status", "mpi", *where)
    command = f"./kubectl '--kubeconfig=my config' '--context=a b' apply --server-side -f {MPI.url}"
    assert done.stderr == f"hint: {command}\n{digest}"
