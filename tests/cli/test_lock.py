"""Tests of `mlpack lock`, against a registry that has the image of a package."""

import json
import os
from pathlib import Path

import pytest

from packager.kubernetes.kubectl.kustomize import kustomize
from packager.package.opened import opened
from tests.conftest import Mlpack
from tests.publish.fake_registry import FakeRegistry, digest_of

pytestmark = pytest.mark.usefixtures("no_logins")

NAME = "mpioperator/mpi-pi"
ENV = "quickstart/k8s/mlops/single-node/mlops.env"
AMD, ARM = digest_of(b"amd64"), digest_of(b"arm64")
INDEX = {
    "schemaVersion": 2,
    "manifests": [
        {"digest": AMD, "size": 1, "platform": {"os": "linux", "architecture": "amd64"}},
        {"digest": ARM, "size": 1, "platform": {"os": "linux", "architecture": "arm64"}},
    ],
}


@pytest.fixture
def digest(registry: FakeRegistry, kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The digest of the image's index, which is in the registry."""
    monkeypatch.setenv("KUBECTL", str(kubectl))
    return registry.put(NAME, "openmpi", json.dumps(INDEX).encode())


def images(package: str | Path, overlay: str) -> set[str]:
    with opened(Path(package)) as content:
        text = kustomize(content.overlay(overlay), program=os.environ["KUBECTL"]).manifests
    return {line.partition("image: ")[2] for line in text.splitlines() if "image: " in line}


def test_lock_writes_digests_into_a_new_archive(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, digest: str
) -> None:
    done = mlpack("lock", archive, "--registry", registry.host, "-d", "locked.tar.gz")
    assert (done.code, done.stdout) == (0, "locked.tar.gz\n")
    image = f"{registry.host}/{NAME}"
    assert f"multi-node: {image}:openmpi is {digest}\nsingle-node: {image}:openmpi is {digest}\n" in done.stderr
    for overlay in ("single-node", "multi-node"):
        assert images("locked.tar.gz", overlay) == {f"{image}:openmpi@{digest}"}
    assert len([1 for _, path, _ in registry.requests if path == f"/v2/{NAME}/manifests/openmpi"]) == 1
    verified = mlpack("verify", "locked.tar.gz", "-v")
    assert (verified.code, verified.stdout) == (0, "")
    assert "single-node: images locked by digest\n" in verified.stderr
    assert mlpack("verify", "locked.tar.gz", "--require-locked").code == 0
    refused = mlpack("verify", archive, "--require-locked")
    assert refused.code == 5
    assert f"docker.io/{NAME}:openmpi is named by its tag, which may move (mlpack lock)" in refused.stdout
    again = mlpack("lock", archive, "--registry", registry.host, "-d", "again.tar.gz")
    assert again.code == 0
    assert Path("again.tar.gz").read_bytes() == Path("locked.tar.gz").read_bytes()


def test_lock_edits_a_folder_in_place(mlpack: Mlpack, registry: FakeRegistry, package: Path, digest: str) -> None:
    done = mlpack("lock", package, "--registry", registry.host, "--overlay", "single-node")
    assert (done.code, done.stdout) == (0, f"{package / ENV}\n")
    assert f"IMAGE={NAME}:openmpi@{digest}\n" in (package / ENV).read_text()
    assert images(package, "single-node") == {f"{registry.host}/{NAME}:openmpi@{digest}"}
    assert images(package, "multi-node") == {f"docker.io/{NAME}:openmpi"}
    unlocked = mlpack("verify", package, "-v").stderr
    assert "single-node: images locked by digest\n" in unlocked
    assert "multi-node: images" not in unlocked
    again = mlpack("lock", package, "--overlay", "single-node")
    assert (again.code, again.stdout) == (0, "")
    assert "nothing to change\n" in again.stderr


def test_check_reports_moved_tag(mlpack: Mlpack, registry: FakeRegistry, package: Path, digest: str) -> None:
    open_one = mlpack("lock", package, "--registry", registry.host, "--check")
    assert open_one.code == 5
    message = f"single-node pulls {registry.host}/{NAME}:openmpi by its tag, which is {digest} now"
    assert f"{ENV}:8:1: {message}" in open_one.stderr
    assert f"IMAGE={NAME}:openmpi\n" in (package / ENV).read_text()
    assert mlpack("lock", package, "--registry", registry.host).code == 0
    assert mlpack("lock", package, "--check").code == 0
    moved = registry.put(NAME, "openmpi", json.dumps({**INDEX, "annotations": {"a": "b"}}).encode())
    before = (package / ENV).read_bytes()
    checked = mlpack("lock", package, "--check", "-o", "json")
    assert checked.code == 5
    assert f"single-node pulls {registry.host}/{NAME}:openmpi as {digest}; the tag is {moved} now" in checked.stderr
    assert checked.json["images"][1] == {
        "overlay": "single-node",
        "image": f"{registry.host}/{NAME}:openmpi",
        "digest": moved,
        "locked": digest,
        "current": False,
    }
    assert (package / ENV).read_bytes() == before
    assert images(package, "single-node") == {f"{registry.host}/{NAME}:openmpi@{digest}"}
    assert mlpack("lock", package, "--dry-run").code == 0
    assert (package / ENV).read_bytes() == before
    assert mlpack("lock", package).code == 0
    assert f"IMAGE={NAME}:openmpi@{moved}\n" in (package / ENV).read_text()


@pytest.mark.thorough
def test_platform_locks_its_own_manifest(mlpack: Mlpack, registry: FakeRegistry, package: Path, digest: str) -> None:
    done = mlpack("lock", package, "--registry", registry.host, "--platform", "linux/arm64")
    assert done.code == 0
    assert digest not in done.stderr
    assert f"IMAGE={NAME}:openmpi@{ARM}\n" in (package / ENV).read_text()
    assert mlpack("lock", package, "--check").code == 0
    refused = mlpack("lock", package, "--platform", "linux/riscv64")
    assert (refused.code, "the image is for linux/amd64, linux/arm64" in refused.stderr) == (2, True)
    assert mlpack("lock", package, "--platform", "linux").code == 2


def test_image_of_this_machine_is_refused(mlpack: Mlpack, package: Path, digest: str) -> None:
    assert digest
    done = mlpack("lock", package, "--registry", "localhost")
    assert done.code == 2
    assert "has no registry: localhost is this machine" in done.stderr
    assert f"IMAGE={NAME}:openmpi\n" in (package / ENV).read_text()


def test_image_that_is_not_in_mlops_env_is_refused(
    mlpack: Mlpack, registry: FakeRegistry, package: Path, digest: str
) -> None:
    assert digest
    pod = package / "quickstart/k8s/mlops/single-node/pod.yaml"
    registry.put("team/other", "1", b'{"manifests": []}')
    extra = f"    - name: extra\n      image: {registry.host}/team/other:1\n"
    pod.write_text(pod.read_text().replace("  initContainers:\n", f"  initContainers:\n{extra}", 1))
    done = mlpack("lock", package, "--registry", registry.host, "--overlay", "single-node")
    assert done.code == 4
    assert f"single-node still uses {registry.host}/team/other:1 by the tag" in done.stderr
    assert f"IMAGE={NAME}:openmpi\n" in (package / ENV).read_text()
