"""Folders beside those of a package: files of runs are accepted there, and none that programs act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

UNSEALED = "the package was not sealed with this file"
COMMON = "quickstart/common/mpi/k8s/mlops"


def _write(package: Path, *names: str) -> None:
    for name in names:
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def with_checkpoints(mlpack: Run, tmp_path: Path) -> Path:
    """hello-mpi, which writes checkpoints into its own folder."""
    checkpoints = "environment.CHECKPOINT_DIR=ROOT/hello-mpi/checkpoints"
    assert mlpack("build", "hello-mpi", "--format", "dir", "--set", checkpoints).code == 0
    return tmp_path / "hello-mpi"


def test_files_of_runs_are_accepted(mlpack: Run, with_checkpoints: Path, kubectl: Path) -> None:
    _write(with_checkpoints, "output/rank-0.txt", "outputs/a/b.json", "checkpoints/1/model.bin", "output/run.sh")
    done = mlpack("verify", with_checkpoints, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")


def test_files_that_no_run_makes_are_refused(mlpack: Run, with_checkpoints: Path, kubectl: Path) -> None:
    names = (
        *("checkpoints/.git/config", "output/.envrc", "output/KUSTOMIZATION.YML", "output/a/.vscode/tasks.json"),
        *("output/a/Kustomization", "output/git~1/config", "output/kustomization.yaml", "output/repo/HEAD"),
        *("quickstart/more.yaml", "x"),
    )
    _write(with_checkpoints, *names)
    done = mlpack("verify", with_checkpoints, "--kubectl", kubectl)
    assert (done.code, done.stdout.splitlines()) == (5, [f"{with_checkpoints}/{name}: {UNSEALED}" for name in names])


def test_link_in_results_is_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    (package / "output").mkdir()
    (package / "output/link").symlink_to("/etc")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, "output/link is a link, not a plain file" in done.stderr) == (5, True)


def test_sealed_output_folder_beside_code_accepts_no_results(mlpack: Run, kubectl: Path, tmp_path: Path) -> None:
    output = f"environment.OUTPUT_DIR=ROOT/hello-mpi/{COMMON}/evil"
    assert mlpack("build", "hello-mpi", "--format", "dir", "--set", output).code == 0
    package = tmp_path / "hello-mpi"
    _write(package, f"{COMMON}/evil/x.sh")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (5, f"{package}/{COMMON}/evil/x.sh: {UNSEALED}\n")
