"""Test of `mlpack operator status`, and of the command that it prints, with a real operator in a pod."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from packager.workloads.jobset.life import JOBSET
from tests.e2e.faults import component
from tests.e2e.test_jobset import peers
from tests.testbed import operators
from tests.testbed.builds import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Images, Site

IMAGE = "registry.k8s.io/jobset/jobset:v0.12.0"


@pytest.fixture
def jobset_release(images: Images, tmp_path: Path) -> Iterator[Path]:
    """Remove JobSet from the cluster, yield the manifest of its pinned release, and restore JobSet."""
    shutil.copy2(OPERATORS.entry / "jobset", tmp_path)
    lines = [
        "FROM docker.io/library/debian:trixie-slim",
        "COPY jobset /manager",
        "USER 65532:65532",
        'ENTRYPOINT ["/manager"]',
    ]
    (tmp_path / "Dockerfile").write_text("\n".join(lines) + "\n")
    images.build(tmp_path, IMAGE)
    manifest = tmp_path / "manifests.yaml"
    manifest.write_bytes(operators.jobset_release())
    component("stop", "jobset")
    operators.remove_jobset()
    yield manifest
    operators.remove_jobset()
    component("start", "jobset")


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.usefixtures("mpi_image")
@pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="another cluster's JobSet is not ours to remove")
def test_pinned_release_of_jobset_is_installed_and_removed(site: Site, jobset_release: Path) -> None:
    """The manifest is the pinned one byte for byte, including roles, webhooks and their certificate."""
    package = peers(site, "none")
    doctor = package.run("doctor")
    installation = JOBSET.installation()
    assert (doctor.code, f"; fix: {installation}" in doctor.out) == (1, True), doctor.out
    deploy = package.run("deploy")
    assert deploy.code == 7
    assert installation in deploy.err
    assert site.left() == []

    site.run(f"kubectl apply --server-side -f {jobset_release}")
    site.until(lambda: site.shell("mlpack operator status jobset").returncode == 0, "JobSet to serve", 300)
    answer = json.loads(site.run("mlpack operator status jobset -o json"))
    assert (answer["alive"], answer["served"], answer["image"]) == ("yes", ["v1alpha2"], IMAGE)
    doctor = package.run("doctor")
    assert doctor.code == 0, doctor.out
    deploy = package.run("deploy")
    assert deploy.code == 0, deploy.err

    removed = site.shell(f"kubectl delete --filename {jobset_release}", timeout=330)
    assert removed.returncode == 0, removed.stderr
    kinds = "crd,clusterrole,clusterrolebinding,mutatingwebhookconfiguration,validatingwebhookconfiguration,namespace"
    assert "jobset" not in site.run(f"kubectl get {kinds} -o name | grep -v kueue")
    assert site.shell("mlpack operator status jobset").returncode == 7
