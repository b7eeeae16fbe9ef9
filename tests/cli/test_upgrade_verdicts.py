"""Tests of `upgrade` for a result that was verified before on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Mlpack

NOTE = "verified before on this machine: not rendered again\n"
PACKAGE = Path("hello-mpi")
ENV = PACKAGE / "quickstart/k8s/mlops/single-node/mlops.env"


@pytest.fixture(autouse=True)
def _packages(mlpack: Mlpack, kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a package and a newer one, and write down each render of kubectl."""
    program = Path("kubectl").absolute()
    program.write_text(f'#!/bin/sh\n[ "$1" != kustomize ] || echo x >>"{program}.renders"\nexec {kubectl} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("KUBECTL", str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    for arguments in (("--format", "dir"), ("--set", "version=1.1.0", "--destination", "new")):
        assert mlpack("build", "hello-mpi", *arguments).code == 0


def renders() -> int:
    path = Path("kubectl.renders")
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_upgrade_after_a_dry_run_renders_nothing(mlpack: Mlpack) -> None:
    assert mlpack("configure", PACKAGE, "--memory", "1Gi").code == 0
    first = mlpack("upgrade", PACKAGE, "new/hello-mpi.tar.gz", "--dry-run")
    assert (first.code, renders(), NOTE in first.stderr) == (0, 2, False)
    second = mlpack("upgrade", PACKAGE, "new/hello-mpi.tar.gz")
    assert (second.code, renders(), NOTE in second.stderr) == (0, 2, True)
    assert "\nMEMORY=1Gi\n" in ENV.read_text()


def test_upgrade_of_an_unedited_folder_to_a_verified_package_renders_nothing(mlpack: Mlpack) -> None:
    assert mlpack("verify", "new/hello-mpi.tar.gz").code == 0
    before = renders()
    done = mlpack("upgrade", PACKAGE, "new/hello-mpi.tar.gz")
    assert (done.code, renders() - before, NOTE in done.stderr) == (0, 0, True)
    assert mlpack("verify", PACKAGE).code == 0


def test_upgrade_with_an_edit_does_not_use_the_verdict_of_the_new_package(mlpack: Mlpack) -> None:
    assert mlpack("verify", "new/hello-mpi.tar.gz").code == 0
    before = renders()
    with ENV.open("a") as file:
        file.write("LD_PRELOAD=/tmp/x.so\n")
    done = mlpack("upgrade", PACKAGE, "new/hello-mpi.tar.gz")
    assert NOTE not in done.stderr
    assert renders() > before


def test_upgrade_with_another_kubectl_renders_again(mlpack: Mlpack) -> None:
    assert mlpack("verify", "new/hello-mpi.tar.gz").code == 0
    before = renders()
    os.utime("kubectl", ns=(0, 0))
    done = mlpack("upgrade", PACKAGE, "new/hello-mpi.tar.gz")
    assert (done.code, renders() - before, NOTE in done.stderr) == (0, 2, False)


def test_result_with_problems_is_verified_each_time(mlpack: Mlpack) -> None:
    text = ENV.read_text()
    ENV.write_text(text.replace("\nMEMORY=32Mi\n", "\nMEMORY=a lot\n"))
    for _ in range(2):
        before = renders()
        done = mlpack("upgrade", PACKAGE, "new/hello-mpi.tar.gz", "--dry-run")
        assert NOTE not in done.stderr
        assert renders() > before
