"""Tests of files that git, editors and desktops leave in the folder of a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.package import tree
from tests.broken import pack

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

OVERLAY = "quickstart/k8s/mlops/single-node"


@pytest.mark.parametrize("name", [".gitignore", f"{OVERLAY}/.mlops.env.swp", f"{OVERLAY}/mlops.env~", ".DS_Store"])
def test_verify_ignores_files_of_tools_and_tree_leaves_them_out(mlpack: Mlpack, package: Path, name: str) -> None:
    (package / name).write_text("x")
    assert mlpack("verify", package).code == 0
    assert name not in {entry.path for entry in tree.read(package).entries}


def test_verify_refuses_an_overlay_that_includes_a_file_of_an_editor(mlpack: Mlpack, package: Path) -> None:
    (package / OVERLAY / "pod-patch.yaml~").write_bytes((package / OVERLAY / "pod-patch.yaml").read_bytes())
    kustomization = package / OVERLAY / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("path: pod-patch.yaml", "path: pod-patch.yaml~"))
    assert mlpack("verify", package).code == 5


def test_verify_says_where_a_manifest_of_ones_own_may_be(mlpack: Mlpack, package: Path) -> None:
    (package / OVERLAY / "own-patch.yaml").write_text("{}")
    done = mlpack("verify", package)
    assert done.code == 5
    assert f"{OVERLAY}/own-patch.yaml: the package was not sealed with this file" in done.stdout
    assert f"(own manifests go to quickstart/site/NAME: mlpack configure {package} --with ./NAME)" in done.stdout


def test_verify_refuses_a_file_of_a_tool_in_an_archive(mlpack: Mlpack, package: Path, tmp_path: Path) -> None:
    (package / f"{OVERLAY}/.mlops.env.swp").write_text("x")
    pack(package, tmp_path / "packed.tar.gz")
    done = mlpack("verify", tmp_path / "packed.tar.gz")
    assert done.code == 5
