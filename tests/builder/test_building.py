"""Tests of a site's defaults in a build: what the package is sealed with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.site.test_read import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

COMMON = "hello-mpi/quickstart/common/mpi/k8s/mlops/site"
SINGLE = "hello-mpi/quickstart/k8s/mlops/single-node"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "mlpack-site.yaml"
    path.write_text(COMPLETE, encoding="utf-8")
    return path


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_build_seals_package_with_defaults(mlpack: Mlpack, site: Path, tmp_path: Path, kubectl: Path) -> None:
    done = mlpack("build", "hello-mpi", "--format", "dir")
    assert done.code == 0, done.stderr
    assert done.stderr.startswith(f"using site defaults of {site}\nnext, ")
    values = text(tmp_path / COMMON / "site.env").splitlines()
    assert {"OUTPUT_CLAIM=results", "QUEUE=user-queue", "PULL_SECRET=registry", "SHM_SIZE=8Gi"} <= set(values)
    assert "      pool: train\n" in text(tmp_path / COMMON.replace("/site", "/placement") / "placement.yaml")
    patch = text(tmp_path / SINGLE / "pod-patch.yaml")
    assert "runAsUser: 2000\n    runAsGroup: 3000\n    fsGroup: 4000\n" in patch
    assert "REGISTRY=reg.example.com/team\n" in text(tmp_path / SINGLE / "mlops.env")
    sealed = json.loads(text(tmp_path / "hello-mpi/manifest.json"))["spec"]
    assert (sealed["root"], sealed["registry"]) == ("/nfs/models", "reg.example.com/team")
    assert sealed["with"] == ["pvc", "queue", "placement", "pull-secret", "shared-memory"]
    verified = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
    assert (verified.code, "edited:" in verified.stderr) == (0, False)


@pytest.mark.usefixtures("site")
def test_options_of_build_count_more_than_defaults(mlpack: Mlpack, tmp_path: Path) -> None:
    options = ("--with", "scratch", "--registry", "mine.example", "--site", "QUEUE=mine")
    assert mlpack("build", "hello-mpi", "--format", "dir", *options).code == 0
    sealed = json.loads(text(tmp_path / "hello-mpi/manifest.json"))["spec"]
    assert sealed["with"] == ["scratch", "queue", "placement", "pull-secret", "shared-memory"]
    assert sealed["registry"] == "mine.example"
    assert "QUEUE=mine\n" in text(tmp_path / COMMON / "site.env")


def test_build_refuses_invalid_site_and_writes_nothing(mlpack: Mlpack, site: Path, tmp_path: Path) -> None:
    site.write_text("registery: x\n", encoding="utf-8")
    done = mlpack("build", "hello-mpi")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{site}:1:1: unknown key 'registery' (did you mean 'registry'?)\n")
    assert list(tmp_path.glob("hello-mpi*")) == []
