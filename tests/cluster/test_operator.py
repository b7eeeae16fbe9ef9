import hashlib
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from packager.cli.host import Host
from packager.cluster import operator_release
from packager.cluster.operator import await_operator
from packager.kubernetes.kubectl.client import Kubectl
from packager.workloads.kinds import Operator
from packager.workloads.mpijob.life import MPI_OPERATOR, MPIJob
from tests.conftest import Mlpack
from tests.fake_cluster import FakeCluster, item, lease, managed

MPI = MPI_OPERATOR
LABELS = {"app": "mpi-operator"}


def crd(*served: str, of: Operator = MPI) -> dict[str, Any]:
    versions = [{"name": version, "served": True} for version in served]
    conditions = [{"type": "Established", "status": "True"}]
    return item("CustomResourceDefinition", of.crd, spec={"versions": versions}, status={"conditions": conditions})


def deployment(available: int = 1, updated: int = 1, **status: Any) -> dict[str, Any]:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {"spec": {"containers": [{"image": "mpioperator/mpi-operator:0.8.0"}]}},
    }
    pod_counts = {"replicas": 1, "availableReplicas": available, "updatedReplicas": updated, **status}
    if available:
        pod_counts["conditions"] = [{"type": "Available", "status": "True"}]
    return item("Deployment", MPI.name, metadata={"namespace": MPI.name}, spec=spec, status=pod_counts)


def job(name: str, *conditions: str) -> dict[str, Any]:
    return item(
        "MPIJob", name, status={"conditions": [{"type": condition, "status": "True"} for condition in conditions]}
    )


def installed(manifest: dict[str, Any], manager: str = "mlpack", **annotations: str) -> dict[str, Any]:
    """Return an object of the operator as `manager` has applied it."""
    notes = {"managedFields": [managed(manager, manifest)], "annotations": annotations}
    return {**manifest, "metadata": {**manifest["metadata"], **notes}}


@pytest.fixture
def cluster(mlpack: Mlpack) -> FakeCluster:
    cluster = FakeCluster([installed(crd("v2beta1")), installed(deployment()), lease()])
    mlpack.host = Host(cluster)
    return cluster


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Return a file with the operator's manifest as changed by a site."""
    path = tmp_path / "operator.yaml"
    path.write_text(yaml.safe_dump_all([crd("v2beta1"), deployment()]))
    return path


def test_operator_install_applies_server_side_and_waits(mlpack: Mlpack, cluster: FakeCluster, manifest: Path) -> None:
    done = mlpack("operator", "install", "mpi", "--from", manifest)
    assert done.code == 0
    assert "mpi-operator is installed and serves MPIJob (v2beta1)" in done.stderr
    assert f"note: {manifest} differs from upstream's manifest of v0.8.0" in done.stderr
    applied = [call for call in cluster.calls if call.startswith("apply")]
    assert len(applied) == 1
    assert applied[0].startswith("apply --server-side --field-manager=mlpack --filename=")


@pytest.mark.parametrize("who", ["server", "client"])
def test_dry_run_passes_its_flag_to_kubectl_apply(
    mlpack: Mlpack, cluster: FakeCluster, manifest: Path, who: str
) -> None:
    assert mlpack("operator", "install", "mpi", "--from", manifest, "--dry-run", who).code == 0
    applied = [call for call in cluster.calls if call.startswith("apply")]
    assert [f"--dry-run={who}" in call for call in applied] == [True]
    assert all(("--server-side" in call) is (who == "server") for call in applied)


def test_operator_install_refuses_if_another_operator_has_the_crd(
    mlpack: Mlpack, cluster: FakeCluster, manifest: Path
) -> None:
    cluster.objects[0] = crd("v1")
    done = mlpack("operator", "install", "mpi", "--from", manifest)
    assert done.code == 7
    assert "already exists and serves v1: most likely that of training-operator" in done.stderr
    assert not any(call.startswith("apply") for call in cluster.calls)


def test_install_waits_until_the_old_pod_of_an_upgrade_is_replaced(cluster: FakeCluster, manifest: Path) -> None:
    cluster.objects[1] = deployment(available=1, updated=1, replicas=2)
    waiting = await_operator(Kubectl(runner=cluster), operator_release.read_manifests(MPI, manifest))
    assert next(waiting) == "deployment/mpi-operator: not all of its pods are available yet"
    cluster.objects[1] = deployment()
    assert list(waiting) == []


def test_operator_install_ends_after_its_timeout(mlpack: Mlpack, cluster: FakeCluster, manifest: Path) -> None:
    cluster.objects[1] = deployment(available=0)
    done = mlpack("operator", "install", "mpi", "--from", manifest, "--timeout", "0s")
    assert done.code == 8
    assert "the operator is not ready after 0 s: deployment/mpi-operator: not all" in done.stderr


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
    assert done.stderr == "hint: mlpack operator install mpi\n"
    Path("my config").touch()
    where = ("--context", "a b", "--kubeconfig", "my config", "--kubectl", "./kubectl")
    done = mlpack("operator", "status", "mpi", *where)
    assert done.stderr == (
        "hint: mlpack operator install mpi --kubeconfig 'my config' --context 'a b' --kubectl ./kubectl\n"
    )


def test_operator_exits_with_7_if_the_server_refuses(mlpack: Mlpack, cluster: FakeCluster, manifest: Path) -> None:
    message = 'clusterroles "mpi-operator" is forbidden: User "me" may not'
    cluster.refused["apply"] = f"Error from server (Forbidden): {message}"
    done = mlpack("operator", "install", "mpi", "--from", manifest)
    assert done.code == 7
    assert done.stderr.endswith(f"error: the cluster rejects it: {message}\nhint: ask the cluster administrator\n")


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch, manifest: Path) -> Iterator[Callable[[bytes], None]]:
    """Replace upstream by a local server, and yield a function that sets the bytes that it serves."""
    content = [manifest.read_bytes()]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content[0])

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        digest = hashlib.sha256(content[0]).hexdigest()
        release = replace(MPI, url=f"http://127.0.0.1:{server.server_port}/operator.yaml", sha256=digest)
        monkeypatch.setattr(MPIJob, "operator", release)
        yield lambda other: content.__setitem__(0, other)
        server.shutdown()


@pytest.mark.usefixtures("cluster")
def test_operator_install_takes_the_upstream_manifest_only_with_the_pinned_digest(
    mlpack: Mlpack, upstream: Callable[[bytes], None], manifest: Path
) -> None:
    done = mlpack("operator", "install", "mpi")
    assert done.code == 0
    assert "note:" not in done.stderr
    upstream(manifest.read_bytes() + b"\n")
    done = mlpack("operator", "install", "mpi")
    assert done.code == 5
    assert "has changed: expected sha256 " in done.stderr


@pytest.mark.usefixtures("cluster")
def test_operator_install_refuses_a_file_without_manifests(mlpack: Mlpack, tmp_path: Path) -> None:
    text = "just words"
    (tmp_path / "x.yaml").write_text(text)
    done = mlpack("operator", "install", "mpi", "--from", "x.yaml")
    assert done.code == 2
    assert "x.yaml contains no manifests" in done.stderr
