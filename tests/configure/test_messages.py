"""The messages of `mlpack configure` about a package that was edited or damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

SINGLE = "hello-mpi/quickstart/k8s/mlops/single-node"
IDS = ("configure", "hello-mpi", "--overlay", "single-node", "--uid", "5", "--gid", "6")


@pytest.fixture
def overlay(package: Path) -> Path:
    """The folder of hello-mpi's single-node overlay, as delivered."""
    return package.parent / SINGLE


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_configure_refuses_patch_without_group(mlpack: Mlpack, overlay: Path) -> None:
    edit(overlay / "pod-patch.yaml", "    runAsGroup: 1000\n", "")
    before = (overlay / "pod-patch.yaml").read_text()
    done = mlpack(*IDS)
    message = f"error: no patch of single-node sets runAsGroup: {SINGLE}/pod-patch.yaml\n"
    assert (done.code, done.stdout, done.stderr) == (2, "", message)
    assert (overlay / "pod-patch.yaml").read_text() == before


def test_configure_reports_kustomization_with_invalid_yaml(mlpack: Mlpack, overlay: Path) -> None:
    edit(overlay / "kustomization.yaml", "nameSuffix: -single-node\n", "nameSuffix: ]\n")
    line = (overlay / "kustomization.yaml").read_text().splitlines().index("nameSuffix: ]") + 1
    done = mlpack(*IDS)
    assert (done.code, done.stdout) == (2, "")
    problem, error = done.stderr.splitlines()
    assert problem.startswith(f"{SINGLE}/kustomization.yaml:{line}:13: not valid YAML: ")
    assert error == f"error: {SINGLE}/kustomization.yaml is not YAML"


@pytest.mark.parametrize(
    ("file", "arguments"),
    [("mlops.env", ("--overlay", "single-node", "--root", "/srv")), ("pod-patch.yaml", ("--uid", "5"))],
)
def test_configure_reports_missing_file(mlpack: Mlpack, overlay: Path, file: str, arguments: tuple[str, ...]) -> None:
    (overlay / file).unlink()
    done = mlpack("configure", "hello-mpi", *arguments)
    message = f"error: {SINGLE}/{file} cannot be read: no such file or directory\n"
    assert (done.code, done.stdout, done.stderr) == (6, "", message)
