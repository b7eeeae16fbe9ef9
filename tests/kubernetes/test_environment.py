"""Variables that no package may set: refused where a spec is checked, a package verified, configured or deployed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.kubernetes.environment import refusal_reason
from tests import demo
from tests.life import rendered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

PATH_REASON = "it would replace the image's value, which leads to mpirun, ssh and python3"
HOME_REASON = "the package sets it to a folder that the pod's user can write to"
ENV = "quickstart/k8s/mlops/single-node/mlops.env"


def test_variables_that_affect_every_program_are_refused() -> None:
    for key in [
        "HOME",
        "PATH",
        "LD_PRELOAD",
        "LD_AUDIT",
        "BASH_ENV",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "MLPACK_SPECS",
        "MLPACK_",
        "TRUE",
        "null",
    ]:
        assert refusal_reason(key)


def test_other_variables_are_accepted() -> None:
    for key in ["LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS", "MY_PATH", "MLPACK", "path", "ENV"]:
        assert refusal_reason(key) is None


def test_spec_with_a_refused_variable_has_problems(tmp_path: Path) -> None:
    spec = demo.changed(
        "environment: {STEPS: 1, PATH: /x, MLPACK_X: 1}",
        "script: train.sh} => script: train.sh, environment: {HOME: /}}",
    )
    assert demo.problems(demo.write(tmp_path, spec)) == [
        f"spec.yaml:10:71: HOME cannot be set in a package ({HOME_REASON})",
        f"spec.yaml:11:25: PATH cannot be set in a package ({PATH_REASON})",
        "spec.yaml:11:35: MLPACK_X cannot be set in a package (names that start with MLPACK_ are reserved for mlpack)",
    ]


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


def test_deploy_refuses_variable_added_to_the_overlay(mlpack: Mlpack, life: Life) -> None:
    life.overlays["multi-node"] = rendered("multi-node")
    config = next(item for item in life.overlays["multi-node"] if item["metadata"]["name"].startswith("hello-mpi-env"))
    config["data"]["LD_PRELOAD"] = "/x.so"
    done = mlpack("deploy", "hello-mpi")
    assert done.code == 5
    assert "data.LD_PRELOAD: it cannot be set in a package: it would be loaded into every program" in done.stderr
    assert not any(call.startswith("apply") for call in life.calls)
