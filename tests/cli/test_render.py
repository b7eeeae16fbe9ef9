"""Tests of `mlpack render`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


def test_render_prints_manifests_of_variant(mlpack: Mlpack, tmp_path: Path, kubectl: Path) -> None:
    spec = demo.write(tmp_path / "demo", demo.changed(*demo.VARIANTS))
    done = mlpack("render", spec, "multi-node", "--kubectl", kubectl, "--precision", "bf16")
    assert (done.code, done.stderr) == (0, "")
    assert "kind: MPIJob\n" in done.stdout
    assert "name: demo-bf16-training-multi-node\n" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_render_reports_unknown_overlay_and_missing_kubectl(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo", demo.changed(*demo.VARIANTS))
    done = mlpack("render", spec, "multi-nod", "--mode", "inference")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "error: demo-fp32-inference has no overlay 'multi-nod'; it has: single-node\n"
    done = mlpack("render", spec, "single-node", "--kubectl", "./no-kubectl")
    assert (done.code, done.stdout) == (6, "")
    assert done.stderr.startswith("error: ./no-kubectl: program not found\n")


def test_render_prints_overlay_of_a_package_in_a_folder(mlpack: Mlpack, kubectl: Path) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    done = mlpack("render", "./hello-mpi", "single-node", "--kubectl", kubectl)
    assert (done.code, "kind: Pod\n" in done.stdout) == (0, True), done.stderr
    assert mlpack("render", "./hello-mpi", "single-node", "--mode", "training", "--kubectl", kubectl).code == 2
