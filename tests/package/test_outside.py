"""Tests of overlays outside of their packages, which have options that the package was built without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.package.outside import OutsideOverlay

if TYPE_CHECKING:
    from pathlib import Path

COMMON = "quickstart/common/mpi/k8s/mlops"
KUSTOMIZATION = "quickstart/k8s/mlops/single-node/kustomization.yaml"
TEXT = b"""\
# A test.
resources: []
# Options. Their
# values are in ../../../common/mpi/k8s/mlops/site/site.env.
components:
  - ../../../common/mpi/k8s/mlops/gpu # GPUs
  - ../../../common/mpi/k8s/mlops/output-pvc
  - ../../../site/ours
"""


def test_option_that_the_package_lacks_is_in_the_folder_of_the_overlay(tmp_path: Path) -> None:
    folder, package = tmp_path / "mine/single-node", tmp_path / "vendor/hello-mpi"
    (package / COMMON / "gpu").mkdir(parents=True)
    folder.mkdir(parents=True)
    overlay = OutsideOverlay(folder, package, "single-node", "mpi", "sha256:0", None, {})
    own, packaged = f"{COMMON}/output-pvc/kustomization.yaml", f"{COMMON}/gpu/values/kustomization.yaml"
    assert (overlay.place(own), overlay.is_own(own)) == (folder / "options/output-pvc/kustomization.yaml", True)
    assert (overlay.place(packaged), overlay.is_own(packaged)) == (package / packaged, False)
    written = overlay.written(KUSTOMIZATION, TEXT)
    assert written.decode().splitlines() == [
        "# A test.",
        "resources: []",
        "# Options. Their  values are in ./values/site.env.",
        "components:",
        "  - ./values",
        f"  - ../../vendor/hello-mpi/{COMMON}/gpu # GPUs",
        "  - ./options/output-pvc",
        "  - ./site/ours",
    ]
    assert overlay.read(KUSTOMIZATION, written) == TEXT
    (folder / "kustomization.yaml").write_bytes(written)
    (folder / "options/output-pvc").mkdir(parents=True)
    (folder / "options/output-pvc/kustomization.yaml").write_bytes(b"kind: Component\n")
    assert dict(overlay.files()) == {KUSTOMIZATION: TEXT, own: b"kind: Component\n"}


def test_option_that_has_or_reads_values_is_in_the_folder_of_the_overlay(tmp_path: Path) -> None:
    folder, package = tmp_path / "mine/single-node", tmp_path / "vendor/hello-mpi"
    (package / COMMON / "placement").mkdir(parents=True)
    (package / COMMON / "gpu/patch").mkdir(parents=True)
    overlay = OutsideOverlay(folder, package, "single-node", "mpi", "sha256:0", None, {})
    (package / COMMON / "placement/placement.yaml").touch()
    assert overlay.place(f"{COMMON}/placement/placement.yaml") == folder / "options/placement/placement.yaml"
    patch = f"{COMMON}/gpu/patch/kustomization.yaml"
    assert overlay.place(patch) == folder / "options/gpu/patch/kustomization.yaml"
    text = b"resources:\n  - ../../site\n  - gpu.yaml\ncomponents:\n  - ../values\n"
    written = overlay.written(patch, text)
    assert written.decode().splitlines() == [
        "resources:",
        f"  - ../../../../../vendor/hello-mpi/{COMMON}/site",
        "  - gpu.yaml",
        "components:",
        "  - ../../../values",
        "  - ../values",
    ]
    assert overlay.read(patch, written) == text
