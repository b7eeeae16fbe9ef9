"""Annotations of a site reach all pods, in a build and in a package that was received."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.workloads import structures
from tests import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

SITE = 'annotations: {prometheus.io/port: "4711", karpenter.sh/do-not-disrupt: "true"}\n'
SETS = [f"--set={setting}" for setting in kinds.SET]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(SITE, encoding="utf-8")
    return path


def pod_annotations(package: Path, kubectl: Path) -> Iterator[dict[str, str]]:
    """Yield the annotations of the pods of all overlays."""
    for overlay in sorted((package / "quickstart/k8s/mlops").iterdir()):
        for item in yaml.safe_load_all(kustomize(overlay, program=str(kubectl)).manifests):
            for pods in structures.pods(Manifest(item)):
                yield pods.metadata["annotations"]


def check_package(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    """Assert that all pods have the annotations, beside those of the build, and that the package is valid."""
    every = list(pod_annotations(package, kubectl))
    assert len(every) > 2
    for entries in every:
        assert entries["prometheus.io/port"] == "4711"
        assert entries["karpenter.sh/do-not-disrupt"] == "true"
        assert "kubectl.kubernetes.io/default-container" in entries
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")


@pytest.mark.thorough
def test_build_adds_annotations_to_pods_of_every_kind(
    mlpack: Mlpack, site: Path, tmp_path: Path, kubectl: Path
) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", *SETS, "--site-file", site).code == 0
    check_package(mlpack, tmp_path / "hello-mpi", kubectl)


def test_configure_adds_annotations_to_a_received_package(
    mlpack: Mlpack, site: Path, package: Path, kubectl: Path
) -> None:
    assert mlpack("configure", package, "--site-file", site).code == 0
    check_package(mlpack, package, kubectl)
    assert "nothing to change\n" in mlpack("configure", package, "--site-file", site).stderr
    site.write_text(SITE.replace("4711", "4712"), encoding="utf-8")
    assert mlpack("configure", package, "--site-file", site).code == 0
    assert {entries["prometheus.io/port"] for entries in pod_annotations(package, kubectl)} == {"4712"}


OWN_DOMAINS = (
    'annotations: {example.com/team: "vision: a", ml.example.com/cost: "1"}\nannotationDomains: [example.com]\n'
)


@pytest.mark.thorough
def test_annotations_of_own_domains_need_the_site_file_of_the_user(
    mlpack: Mlpack, site: Path, kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write_text(OWN_DOMAINS, encoding="utf-8")
    assert mlpack("build", "hello-mpi", "--format", "dir", "--site-file", site).code == 0
    package = tmp_path / "hello-mpi"
    (tmp_path / "mlpack-site.yaml").write_text(OWN_DOMAINS, encoding="utf-8")  # this may have come with the package
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert "no build makes this annotation" in done.stdout
    monkeypatch.setenv("MLPACK_SITE", str(site))
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0
    assert {entries["example.com/team"] for entries in pod_annotations(package, kubectl)} == {"vision: a"}
    site.write_text(OWN_DOMAINS.replace("example.com/team", "example.com/other"), encoding="utf-8")
    assert mlpack("verify", package, "--kubectl", kubectl).code == 5
