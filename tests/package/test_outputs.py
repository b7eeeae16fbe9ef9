"""Folders in a package that its pods write to: files of runs are accepted there, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

ENV = "quickstart/k8s/mlops/single-node/mlops.env"
OUTPUT = "OUTPUT_DIR=ROOT/hello-mpi/output"
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
    _write(with_checkpoints, "output/rank-0.txt", "output/a/b.json", "checkpoints/1/model.bin", "output/run.sh")
    done = mlpack("verify", with_checkpoints, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")


def test_files_that_no_run_makes_are_refused(mlpack: Run, with_checkpoints: Path, kubectl: Path) -> None:
    names = (
        *("checkpoints/.git/config", "output/.envrc", "output/KUSTOMIZATION.YML", "output/a/.vscode/tasks.json"),
        *("output/a/Kustomization", "output/git~1/config", "output/kustomization.yaml", "output/repo/HEAD"),
        "outputs/x",
    )
    _write(with_checkpoints, *names)
    done = mlpack("verify", with_checkpoints, "--kubectl", kubectl)
    assert (done.code, done.stdout.splitlines()) == (5, [f"{with_checkpoints}/{name}: {UNSEALED}" for name in names])


def test_link_in_results_is_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    (package / "output").mkdir()
    (package / "output/link").symlink_to("/etc")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, "output/link is a link, not a plain file" in done.stderr) == (5, True)


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("/quickstart/common/evil/", "quickstart/common/evil/x.sh"),
        ("//quickstart/./k8s", "quickstart/k8s/more.yaml"),
        ("/", "x"),
    ],
)
def test_edit_that_moves_results_into_the_package_is_refused(
    mlpack: Run, with_checkpoints: Path, kubectl: Path, folder: str, file: str
) -> None:
    env = with_checkpoints / ENV
    replace(env, "CHECKPOINT_DIR=ROOT/hello-mpi/checkpoints", f"CHECKPOINT_DIR=ROOT/hello-mpi{folder}")
    row = next(
        number for number, line in enumerate(env.read_text().splitlines(), 1) if line.startswith("CHECKPOINT_DIR")
    )
    _write(with_checkpoints, file)
    done = mlpack("verify", with_checkpoints, "--kubectl", kubectl)
    message = f"an edit moves CHECKPOINT_DIR into the package's own folder: 'ROOT/hello-mpi{folder}'"
    hint = "use a folder outside of it, or checkpoints, output in it"
    assert done.code == 5
    assert f"{env}:{row}:1: {message} ({hint})\n" in done.stdout
    assert f"{with_checkpoints}/{file}: {UNSEALED}\n" in done.stdout


@pytest.mark.parametrize("folder", ["/srv/results", "ROOT/hello-mpi/output/run-2", "ROOT/hello-mpi-2"])
def test_results_may_be_moved_elsewhere(mlpack: Run, package: Path, kubectl: Path, folder: str) -> None:
    replace(package / ENV, OUTPUT, f"OUTPUT_DIR={folder}")
    _write(package, "output/x")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")


def test_sealed_output_folder_beside_code_accepts_no_results(mlpack: Run, kubectl: Path, tmp_path: Path) -> None:
    output = f"environment.OUTPUT_DIR=ROOT/hello-mpi/{COMMON}/evil"
    assert mlpack("build", "hello-mpi", "--format", "dir", "--set", output).code == 0
    package = tmp_path / "hello-mpi"
    _write(package, f"{COMMON}/evil/x.sh")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (5, f"{package}/{COMMON}/evil/x.sh: {UNSEALED}\n")
