"""An operator is installed, serves, and is gone again: the real one, in a pod, looking after one namespace only."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.faults import faulty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Images, Site

IMAGE = "docker.io/mpioperator/mpi-operator:0.8.0"


@pytest.fixture(scope="session")
def operator_image(images: Images, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The operator that runs beside the cluster of `tests/testbed`, as an image."""
    folder = tmp_path_factory.mktemp("operator")
    if images.own_cluster:
        from tests.testbed.builds import OPERATORS

        shutil.copy2(OPERATORS.entry / "mpi-operator", folder)
        lines = [
            "FROM docker.io/library/debian:trixie-slim",
            "COPY mpi-operator /opt/",
            'ENTRYPOINT ["/opt/mpi-operator"]',
        ]
        (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    return images.build(folder, IMAGE)


@pytest.fixture
def manifest(site: Site, tmp_path: Path) -> Iterator[Path]:
    """A manifest like upstream's, under other names: the cluster's own operator is to stay."""
    own = f"operator-{site.namespace}"
    path = tmp_path / "operator.yaml"
    path.write_text(yaml.safe_dump_all(_objects(site, own)))
    yield path
    site.shell(f"kubectl delete namespace {own} --wait=false; kubectl delete clusterrolebinding {own}")


def test_install_waits_until_it_is_available_and_uninstall_until_it_is_gone(
    site: Site, manifest: Path, operator_image: str
) -> None:
    assert operator_image
    own = f"operator-{site.namespace}"
    installed = site.shell(f"mlpack operator install mpi --from {manifest}")
    assert installed.returncode == 0, installed.stderr
    assert "mpi-operator is installed and serves MPIJob (v2beta1)" in installed.stderr
    status = site.get(f"deployment mpi-operator -n {own}")["status"]
    assert status["availableReplicas"] == 1

    again = site.shell(f"mlpack operator install mpi --from {manifest}")
    assert again.returncode == 0, again.stderr

    answer = json.loads(site.run("mlpack operator status mpi -o json"))
    assert (answer["alive"], answer["served"], answer["image"]) == ("yes", ["v2beta1"], IMAGE)

    removed = site.shell(f"mlpack operator uninstall mpi --from {manifest} --force -y")
    assert removed.returncode == 0, removed.stderr
    assert site.shell(f"kubectl get namespace {own}").returncode == 1
    assert site.shell(f"kubectl get clusterrolebinding {own}").returncode == 1
    assert site.run("mlpack operator status mpi"), "the cluster's own operator has stayed"


def test_an_image_that_does_not_exist_is_told_within_seconds(site: Site, manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace(IMAGE, "localhost/nobody/operator:none"))
    done = site.shell(f"mlpack operator install mpi --from {manifest} --timeout 90s")
    assert done.returncode == 7, done.stderr
    assert "the image localhost/nobody/operator:none cannot be pulled" in done.stderr


def test_it_is_not_removed_under_a_running_job(site: Site, mpi_image: str) -> None:
    assert mpi_image
    package = faulty(site, "sleep:60")
    assert package.run("deploy", "--no-wait").code == 0
    done = site.shell("mlpack operator uninstall mpi -y")
    assert done.returncode == 7
    assert f"{site.namespace}/fault-multi-node" in done.stderr
    assert site.run("mlpack operator status mpi")
    package.run("delete")


def _objects(site: Site, own: str) -> list[dict[str, object]]:
    labels = {"app": own}
    # The pod of a cluster without Services finds the API server where the tests do.
    server = site.run("kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'")
    host, _, port = server.removeprefix("https://").partition(":")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port or "443"}
    container = {
        "name": "mpi-operator",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-alsologtostderr", f"--lock-namespace={own}", f"--namespace={own}"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
    }
    account = {"kind": "ServiceAccount", "name": "mpi-operator", "namespace": own}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mpi-operator", "namespace": own}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": own},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [account],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "mpi-operator", "namespace": own},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"serviceAccountName": "mpi-operator", "containers": [container]},
                },
            },
        },
    ]
