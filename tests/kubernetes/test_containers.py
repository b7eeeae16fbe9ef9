"""Variables that no package may set: refused where a spec is checked, a package verified, configured or deployed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.kubernetes.containers import refusal_reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

PATH_REASON = "it would replace the image's value, which leads to mpirun, ssh and python3"
ENV = "quickstart/k8s/mlops/single-node/mlops.env"


def test_other_variables_are_accepted() -> None:
    for key in ["LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS", "MY_PATH", "MLPACK", "path", "ENV"]:
        assert refusal_reason(key) is None


def test_verify_reports_refused_variable(mlpack: Mlpack, hello_mpi: Path, tmp_path: Path, kubectl: Path) -> None:
    package = shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    with (package / ENV).open("a", encoding="utf-8") as file:
        file.write("PATH=/x\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    line = len((package / ENV).read_text(encoding="utf-8").splitlines())
    what = f"ConfigMap hello-mpi-env-single-node: data.PATH: it cannot be set in a package: {PATH_REASON}"
    assert (done.code, done.stdout) == (5, f"{package}/{ENV}:{line}:1: {what}\n")


def test_configure_refuses_variable(mlpack: Mlpack, hello_mpi: Path) -> None:
    done = mlpack("configure", hello_mpi, "--set", "PATH=/x")
    assert (done.code, done.stderr) == (2, f"error: --set PATH: it cannot be set in a package\nhint: {PATH_REASON}\n")
