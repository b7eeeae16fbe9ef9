"""Tests of `mlpack dev`: its messages when nothing runs, and when it cannot begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.cluster import dev
from tests.life import JOB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Mlpack
    from tests.life import Life

DEV = ("dev", "hello-mpi", "-n", "team")


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
        "  delete them: mlpack dev hello-mpi --stop -n team",
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
def test_dev_refuses_option_of_a_build_for_a_package(mlpack: Mlpack) -> None:
    refused = mlpack(*DEV, "--set", "environment.STEPS=1")
    built = "hello-mpi is a package, which is built already\nhint: mlpack configure hello-mpi --set … changes it"
    assert (refused.code, refused.stderr) == (2, f"error: --set: {built}\n")
