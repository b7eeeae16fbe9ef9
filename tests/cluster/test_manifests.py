"""Tests that rendered overlays are refused unless they contain one workload that can be followed."""

from collections.abc import Callable

import pytest

from packager.base.process import Finished
from tests.conftest import Outcome
from tests.life import JOB, Life, rendered

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


NO_OBJECT = (
    "hello-mpi, multi-node: expected an object with apiVersion, kind and name, but kubectl rendered {}",
    "hello-mpi, multi-node: {} has no container with an image",
)


@pytest.mark.parametrize(
    ("verb", "printed", "message"),
    [
        ("deploy", " \n\n", "kubectl kustomize printed nothing"),
        ("status", "- a\n", NO_OBJECT[0].format("a list")),
        ("delete", "kind: Pod\nmetadata: {name: a}\n", NO_OBJECT[0].format("a mapping")),
        ("status", f"{POD}  labels: []\n", NO_OBJECT[0].format("a mapping")),
        ("doctor", POD, NO_OBJECT[1].format("Pod a")),
        ("status", JOB_OF_X, NO_OBJECT[1].format("MPIJob a")),
    ],
)
def test_commands_refuse_rendered_output_that_is_not_a_package(
    mlpack: Callable[..., Outcome], life: Life, verb: str, printed: str, message: str
) -> None:
    life.first = lambda _argv: Finished(0, printed, "")
    done = mlpack(verb, "hello-mpi")
    assert (done.code, done.stdout, done.stderr) == (4, "", f"error: {message}\n")
    assert life.calls == []


def test_status_refuses_a_package_without_overlays(mlpack: Callable[..., Outcome], life: Life) -> None:
    import shutil

    assert life
    shutil.rmtree("hello-mpi/quickstart/k8s")
    done = mlpack("status", "hello-mpi")
    assert (done.code, done.stderr) == (2, "error: hello-mpi has no overlays\n")
