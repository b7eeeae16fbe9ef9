"""Tests that rendered overlays are refused unless they contain one workload that can be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.process import Finished
from tests.life import JOB, rendered

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

WORKLOAD = rendered("multi-node")[-1]


@pytest.mark.parametrize(
    ("objects", "listed"),
    [
        ([], "none"),
        ([WORKLOAD, WORKLOAD], f"MPIJob {JOB}, MPIJob {JOB}"),
        ([{**WORKLOAD, "apiVersion": "example.com/v2beta1"}], "none"),
    ],
    ids=["none", "two", "another group's of this name"],
)
def test_deploy_refuses_an_overlay_without_exactly_one_workload(
    mlpack: Callable[..., Outcome], life: Life, objects: list[dict[str, object]], listed: str
) -> None:
    config = next(item for item in life.overlays["multi-node"] if item["kind"] == "ConfigMap")
    life.overlays["multi-node"] = [config, *objects]
    done = mlpack("deploy", "hello-mpi")
    assert done.code == 4
    assert done.stderr == (
        "error: hello-mpi, multi-node: expected one workload (Deployment, Job, JobSet, LeaderWorkerSet, MPIJob, Pod), "
        f"found {listed}\n"
        "hint: use `kubectl apply -k` for other kinds\n"
    )


def test_status_refuses_rendered_output_that_is_not_yaml(mlpack: Callable[..., Outcome], life: Life) -> None:
    life.first = lambda _argv: Finished(0, "a: [", "")
    done = mlpack("status", "hello-mpi")
    assert done.code == 4
    first, second = done.stderr.splitlines()
    assert first.startswith("hello-mpi, multi-node:")
    assert second == "error: hello-mpi, multi-node: what kubectl rendered cannot be read"


POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"
JOB_OF_X = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec: {mpiReplicaSpecs: {Worker: {replicas: x}}}
"""


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("", "kubectl kustomize printed nothing"),
        (" \n\n", "kubectl kustomize printed nothing"),
        ("- a\n", "OBJECT a list"),
        ("garbage\n", "OBJECT 'garbage'"),
        ("7\n", "OBJECT the number 7"),
        ("a: 1\n", "OBJECT a mapping"),
        ("{}\n", "OBJECT an empty mapping"),
        ("kind: Pod\nmetadata: {name: a}\n", "OBJECT a mapping"),
        ("apiVersion: v1\nkind: [Pod]\nmetadata: {name: a}\n", "OBJECT a mapping"),
        (f"{POD}  labels: []\n", "OBJECT a mapping"),
        (POD, "CONTAINER Pod a"),
        (f"{POD}spec: []\n", "CONTAINER Pod a"),
        (f"{POD}spec: {{containers: [1]}}\n", "CONTAINER Pod a"),
        (JOB_OF_X, "CONTAINER MPIJob a"),
    ],
)
@pytest.mark.parametrize("verb", [("status",), ("deploy",), ("doctor",), ("delete",), ("logs",), ("image", "build")])
def test_commands_refuse_rendered_output_that_is_not_a_package(
    printed: str,
    message: str,
    verb: tuple[str, ...],
    mlpack: Callable[..., Outcome],
    life: Life,
) -> None:
    life.first = lambda _argv: Finished(0, printed, "")
    done = mlpack(*verb, "hello-mpi")
    kind, _, what = message.partition(" ")
    if kind == "OBJECT":
        message = (
            f"hello-mpi, multi-node: expected an object with apiVersion, kind and name, but kubectl rendered {what}"
        )
    elif kind == "CONTAINER":
        message = f"hello-mpi, multi-node: {what} has no container with an image"
    assert (done.code, done.stdout, done.stderr) == (4, "", f"error: {message}\n")
    assert life.calls == []


def test_status_refuses_a_package_without_overlays(mlpack: Callable[..., Outcome], life: Life) -> None:
    import shutil

    assert life
    shutil.rmtree("hello-mpi/quickstart/k8s")
    done = mlpack("status", "hello-mpi")
    assert (done.code, done.stderr) == (2, "error: hello-mpi has no overlays\n")
