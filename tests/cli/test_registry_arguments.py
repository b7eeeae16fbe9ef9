"""Tests of packages in a registry, and that messages name what the user has named, not where it was unpacked."""

import json
from pathlib import Path

import pytest

from tests.conftest import Mlpack
from tests.life import Life
from tests.publish.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("no_logins")

ENV = "quickstart/k8s/mlops/single-node/mlops.env"


@pytest.fixture
def reference(
    mlpack: Mlpack,
    registry: FakeRegistry,
    package: Path,
    kubectl: Path,
) -> str:
    """A package with an edit, in a registry."""
    (package / ENV).write_text((package / ENV).read_text().replace("REGISTRY=docker.io", "REGISTRY=example.com"))
    name = f"oci://{registry.host}/team/hello-mpi:1.0"
    assert mlpack("push", package, name, "--kubectl", kubectl).code == 0
    registry.requests.clear()
    return name


def layers(registry: FakeRegistry) -> list[str]:
    """Return the paths of the layers that were pulled."""
    manifest = json.loads(registry.manifests["team/hello-mpi", "1.0"])
    digest = manifest["layers"][0]["digest"]
    return [path for method, path, _ in registry.requests if method == "GET" and path.endswith(digest)]


def test_verify_reads_package_in_registry(
    mlpack: Mlpack, registry: FakeRegistry, reference: str, kubectl: Path
) -> None:
    done = mlpack("verify", reference, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    assert f"{reference} is {reference.removesuffix(':1.0')}@sha256:" in done.stderr
    assert mlpack("verify", reference, "--kubectl", kubectl).code == 0
    assert len(layers(registry)) == 1


@pytest.mark.thorough
def test_damaged_file_in_cache_is_pulled_again(
    mlpack: Mlpack, registry: FakeRegistry, reference: str, tmp_path: Path, kubectl: Path
) -> None:
    assert mlpack("verify", reference, "--kubectl", kubectl).code == 0
    (cached,) = (tmp_path / "cache/mlpack/packages").glob("*/hello-mpi.tar.gz")
    cached.write_bytes(b"x" + cached.read_bytes()[1:])
    assert "example.com" in mlpack("verify", "-v", reference, "--kubectl", kubectl).stderr
    assert len(layers(registry)) == 2


def test_missing_package_in_registry_is_reported(mlpack: Mlpack, reference: str) -> None:
    missing = reference.replace(":1.0", ":9.9")
    done = mlpack("verify", missing)
    assert (done.code, done.stderr) == (6, f"error: {missing} not found\n")
    assert mlpack("verify", "oci://localhost").code == 2


def test_deploy_applies_package_in_registry(
    mlpack: Mlpack,
    registry: FakeRegistry,
    life: Life,
    kubectl: Path,
) -> None:
    host, mlpack.host = mlpack.host, None
    name = f"oci://{registry.host}/team/hello-mpi:1.0"
    assert mlpack("push", "hello-mpi", name, "--kubectl", kubectl).code == 0
    mlpack.host = host
    assert mlpack("deploy", name, "--no-wait").code == 0
    assert any("apply" in call for call in life.calls)
    assert mlpack("doctor", name).code in (0, 1, 6)
    assert mlpack("status", name).stdout


@pytest.mark.thorough
def test_messages_name_the_reference_and_not_the_cache(
    mlpack: Mlpack, registry: FakeRegistry, package: Path, kubectl: Path, tmp_path: Path
) -> None:
    manifest = package / "quickstart/k8s/mlops/single-node/kustomization.yaml"
    manifest.write_text(f"{manifest.read_text()}surprise: true\n")
    name = f"oci://{registry.host}/team/hello-mpi:1.0"
    assert mlpack("push", package, name, "--no-verify", "--kubectl", kubectl).code in (0, 6)
    place = f"{name}:quickstart/k8s/mlops/single-node/kustomization.yaml"
    for command in (
        ["verify", name, "--kubectl", kubectl],
        ["verify", name, "--kubectl", kubectl, "-o", "json"],
        ["upgrade", package, name],
        ["status", name, "--overlay", "single-node", "--kubectl", kubectl],
    ):
        done = mlpack(*map(str, command))
        assert str(tmp_path) not in (done.stdout + done.stderr).replace(str(package), ""), command
    assert f"{place}:" in mlpack("verify", name, "--kubectl", kubectl).stdout
