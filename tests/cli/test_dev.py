"""Tests of `mlpack dev`: its messages when nothing runs, and when it cannot begin."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from packager.cluster import dev
from tests.conftest import Mlpack
from tests.life import JOB, Life

DEV = ("dev", "./model", "-n", "team")


@pytest.fixture(autouse=True)
def _model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the model of hello-mpi."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(Path(__file__).parents[2] / "model_specs/hello-mpi", tmp_path / "model")


def test_dev_leaves_pods_after_ctrl_c_and_stop_deletes_them(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_loop: dev.DevLoop) -> Iterator[str]:
        yield "a remark"
        raise KeyboardInterrupt

    monkeypatch.setattr(dev.DevLoop, "parts", interrupted)
    done = mlpack(*DEV)
    assert done.code == 130
    assert done.stderr.splitlines()[:5] == [
        f"mpijob/{JOB} is deployed in the namespace team",
        "a remark",
        "",
        f"detached; the pods of mpijob/{JOB} stay for the next `mlpack dev`",
        "  delete them: mlpack dev model --stop -n team",
    ]
    stopped = mlpack(*DEV, "--stop")
    assert (stopped.code, stopped.stderr) == (0, f"mpijob/{JOB} is deleted\n")
    assert [item for item in life.objects if item["kind"] == "MPIJob"] == []


def test_dev_refuses_workload_of_an_ordinary_deploy(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    refused = mlpack(*DEV)
    assert refused.code == 7
    assert f"mpijob/{JOB} already exists, and was not deployed by `mlpack dev`\n" in refused.stderr


@pytest.mark.usefixtures("life")
def test_dev_refuses_a_package(mlpack: Mlpack) -> None:
    refused = mlpack("dev", "hello-mpi")
    hint = "the code of a package is that of its model"
    assert (refused.code, refused.stderr) == (2, f"error: hello-mpi is not a model\nhint: {hint}\n")
