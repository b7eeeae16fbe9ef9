"""A site's own component comes from a registry, as other programs push it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.publish import artefact
from tests.publish.fake_registry import FakeRegistry, digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: Pod}
    patch: |-
      - {op: add, path: /spec/nodeSelector, value: {disk: ssd}}
"""
FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
ORAS = "application/vnd.oci.image.layer.v1.tar+gzip"


def put(registry: FakeRegistry, files: dict[str, str], kind: str = FLUX) -> str:
    """Store a component as programs in Go pack it: with a folder, times and owners, and without a full last record."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo("./")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.mode = len(text), 1700000000.5, "me", 0o664
            archive.addfile(member, io.BytesIO(text.encode()))
    content = packed.getvalue().rstrip(b"\0")
    layer = gzip.compress(content + bytes(-len(content) % 512 + 1024))
    registry.blobs |= {digest_of(content): content for content in (layer, artefact.EMPTY)}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": kind,
        "config": {"mediaType": artefact.EMPTY_CONFIG, "digest": digest_of(artefact.EMPTY), "size": 2},
        "layers": [{"mediaType": kind, "digest": digest_of(layer), "size": len(layer)}],
    }
    return registry.put("team/nodes", "1", json.dumps(manifest).encode())


@pytest.fixture
def package(mlpack: Mlpack, tmp_path: Path) -> Path:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    return tmp_path / "hello-mpi"


@pytest.mark.parametrize(("top", "kind"), [("", FLUX), ("component/", ORAS)], ids=["flux", "oras"])
def test_configure_adds_component_of_a_registry(
    top: str, kind: str, mlpack: Mlpack, package: Path, registry: FakeRegistry, kubectl: Path
) -> None:
    digest = put(registry, {f"{top}kustomization.yaml": KUSTOMIZATION}, kind)
    reference = f"oci://{registry.host}/team/nodes"
    done = mlpack("configure", package, "--with", f"{reference}:1")
    assert done.code == 0, done.stderr
    assert f"{reference}:1 is {reference}@{digest}\n" in done.stderr
    assert (package / "quickstart/site/nodes/kustomization.yaml").read_text() == KUSTOMIZATION
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert (verified.code, verified.stdout) == (0, "")
    assert "disk: ssd" in mlpack("render", package, "single-node", "--kubectl", kubectl).stdout
    assert "nothing to change\n" in mlpack("configure", package, "--with", f"{reference}@{digest}").stderr


@pytest.mark.parametrize(
    ("files", "code", "message"),
    [
        ({"other.yaml": "{}\n"}, 2, "expected one kustomization.yaml there, found none"),
        ({"../up.yaml": "{}\n"}, 5, "up.yaml"),
        ({"kustomization.yaml": KUSTOMIZATION + "#" * (1 << 20)}, 5, "the files are larger than 1,048,576 bytes"),
    ],
    ids=["name", "path", "size"],
)
def test_artefact_without_a_component_changes_nothing(
    files: dict[str, str], code: int, message: str, mlpack: Mlpack, package: Path, registry: FakeRegistry
) -> None:
    put(registry, files)
    done = mlpack("configure", package, "--with", f"oci://{registry.host}/team/nodes:1")
    assert (done.code, message in done.stderr) == (code, True), done.stderr
    assert not (package / "quickstart/site").exists()


def test_package_is_refused_as_a_component(
    mlpack: Mlpack, package: Path, registry: FakeRegistry, kubectl: Path
) -> None:
    reference = f"oci://{registry.host}/team/hello-mpi:1"
    assert mlpack("push", package, reference, "--kubectl", kubectl).code == 0
    done = mlpack("configure", package, "--with", reference)
    assert (done.code, f"{reference} is a package, not a component" in done.stderr) == (5, True), done.stderr
