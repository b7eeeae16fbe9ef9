"""configure as it asks on a terminal, and what it refuses where it does not ask."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.life import at_a_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

ENV = "quickstart/k8s/mlops/multi-node/mlops.env"
NO_ROOT = "--root relative: expected an absolute path without ':' and '..'"
NO_HOST = "--registry a b: expected a host, perhaps with a port and a path"


@pytest.fixture
def package(hello_mpi: Path, tmp_path: Path) -> Path:
    return shutil.copytree(hello_mpi, tmp_path / "hello-mpi")


def test_an_answer_that_cannot_be_is_told_and_asked_for_again(
    mlpack: Mlpack, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_a_terminal(monkeypatch, typed="relative\n\n/shared\na b\n/shared\nr.example\nme\n5\n6\n7\n")
    done = mlpack("configure", package)
    assert done.code == 0
    assert done.stderr.startswith("hello-mpi. Enter takes what stands in brackets.\n")
    assert done.stderr.count("Folder that the package lies in, as the nodes see it [") == 3
    assert f"{NO_ROOT}\n" in done.stderr
    assert f"{NO_HOST}\n" in done.stderr
    assert done.stderr.count("expected a number, as `id -u` prints it\n") == 1
    assert "MODEL_DIR=/shared/hello-mpi\n" in (package / ENV).read_text(encoding="utf-8")
    assert "REGISTRY=r.example\n" in (package / ENV).read_text(encoding="utf-8")


def test_without_a_terminal_it_says_how_to_answer(mlpack: Mlpack, package: Path) -> None:
    done = mlpack("configure", package)
    assert done.code == 2
    assert done.stderr == (
        "error: there is no terminal to ask on\nhint: say it with --root, --registry, --uid and --gid, or take -y\n"
    )


def test_a_proposal_that_cannot_be_is_not_taken_with_yes(mlpack: Mlpack, package: Path) -> None:
    path = package / ENV
    path.write_text(path.read_text(encoding="utf-8").replace("REGISTRY=docker.io", "REGISTRY=a b"), encoding="utf-8")
    done = mlpack("configure", package, "-y")
    assert (done.code, done.stderr) == (2, f"error: {NO_HOST}\n")
    assert "REGISTRY=a b\n" in path.read_text(encoding="utf-8")


def test_a_new_tarball_does_not_take_the_place_of_a_folder(mlpack: Mlpack, tmp_path: Path) -> None:
    assert mlpack("build", "hello-mpi").code == 0
    (tmp_path / "there").mkdir()
    done = mlpack("configure", "hello-mpi.tar.gz", "--root", "/x", "-d", "there")
    assert (done.code, done.stderr.splitlines()[-1]) == (2, "error: there is a folder")
    assert list((tmp_path / "there").iterdir()) == []
