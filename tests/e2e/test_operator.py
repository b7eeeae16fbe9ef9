"""Tests of `mlpack operator` with real operators in pods; mpi-operator watches one namespace only."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.faults import component
from tests.e2e.test_jobset import peers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Images, Site

IMAGE = "docker.io/mpioperator/mpi-operator:0.8.0"
JOBSET_IMAGE = "registry.k8s.io/jobset/jobset:v0.12.0"


@pytest.fixture(scope="session")
def operator_image(images: Images, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an image of the mpi-operator of `tests/testbed`."""
    return _image_of("mpi-operator", "/opt/mpi-operator", IMAGE, images, tmp_path_factory.mktemp("operator"))


def _image_of(program: str, path: str, name: str, images: Images, folder: Path) -> str:
    if images.own_cluster:
        from tests.testbed.builds import OPERATORS

        shutil.copy2(OPERATORS.entry / program, folder)
        lines = [
            "FROM docker.io/library/debian:trixie-slim",
            f"COPY {program} {path}",
            "USER 65532:65532",
            f'ENTRYPOINT ["{path}"]',
        ]
        (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    return images.build(folder, name)


@pytest.fixture
def manifest(site: Site, tmp_path: Path) -> Iterator[Path]:
    """Yield a manifest like upstream's under other names, so that the cluster's own operator stays."""
    own = f"operator-{site.namespace}"
    path = tmp_path / "operator.yaml"
    path.write_text(yaml.safe_dump_all(_objects(site, own)))
    yield path
    site.shell(f"kubectl delete namespace {own} --wait=false; kubectl delete clusterrolebinding {own}")


def test_install_waits_for_the_operator(site: Site, manifest: Path, operator_image: str) -> None:
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


def test_missing_image_of_the_operator_is_reported_within_seconds(site: Site, manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace(IMAGE, "localhost/nobody/operator:none"))
    done = site.shell(f"mlpack operator install mpi --from {manifest} --timeout 90s")
    assert done.returncode == 7, done.stderr
    assert "the image localhost/nobody/operator:none cannot be pulled" in done.stderr


@pytest.fixture
def jobset_release(images: Images, tmp_path: Path) -> Iterator[Path]:
    """Remove JobSet from the cluster, yield the manifest of its pinned release, and restore JobSet."""
    from tests.testbed.operators import jobset_release, remove_jobset

    _image_of("jobset", "/manager", JOBSET_IMAGE, images, tmp_path)
    manifest = tmp_path / "manifests.yaml"
    manifest.write_bytes(jobset_release())
    component("stop", "jobset")
    remove_jobset()
    yield manifest
    remove_jobset()
    component("start", "jobset")


@pytest.mark.alone
@pytest.mark.usefixtures("mpi_image")
@pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="another cluster's JobSet is not ours to remove")
def test_pinned_release_of_jobset_is_installed_and_removed(site: Site, jobset_release: Path) -> None:
    """The manifest is the pinned one byte for byte, including roles, webhooks and their certificate."""
    package = peers(site, "none")
    doctor = package.run("doctor")
    missing = "JobSet is not served in jobset.x-k8s.io/v1alpha2; fix: mlpack operator install jobset"
    assert (doctor.code, missing in doctor.out) == (1, True), doctor.out
    deploy = package.run("deploy")
    assert deploy.code == 7
    assert "mlpack operator install jobset" in deploy.err
    assert site.left() == []

    install = site.shell(f"mlpack operator install jobset --from {jobset_release} --timeout 5m", timeout=330)
    assert install.returncode == 0, install.stderr
    assert "JobSet is installed and serves JobSet (v1alpha2)" in install.stderr
    assert "differs from upstream's manifest" not in install.stderr
    answer = json.loads(site.run("mlpack operator status jobset -o json"))
    assert (answer["alive"], answer["served"], answer["image"]) == ("yes", ["v1alpha2"], JOBSET_IMAGE)
    doctor = package.run("doctor")
    assert doctor.code == 0, doctor.out
    deploy = package.run("deploy")
    assert deploy.code == 0, deploy.err

    removed = site.shell(f"kubectl delete --filename {jobset_release}", timeout=330)
    assert removed.returncode == 0, removed.stderr
    kinds = "crd,clusterrole,clusterrolebinding,mutatingwebhookconfiguration,validatingwebhookconfiguration,namespace"
    assert "jobset" not in site.run(f"kubectl get {kinds} -o name | grep -v kueue")
    assert site.shell("mlpack operator status jobset").returncode == 7


def _objects(site: Site, own: str) -> list[dict[str, object]]:
    labels = {"app": own}
    # The cluster has no Services, so the pod uses the API server's address of the tests.
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
