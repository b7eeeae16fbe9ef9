"""What delete says of what goes and of what stays; and what the server has against an apply or a delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.cluster.deploy import explained
from tests.life import JOB

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

MPIJOB = f"mpijob/{JOB}"
DELETE = ("delete", "hello-mpi", "-n", "team")


def test_delete_says_when_all_is_gone(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (0, f"{MPIJOB} is gone\n")
    assert life.objects == []


def test_delete_without_waiting_says_that_it_goes_on(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    done = mlpack(*DELETE, "--no-wait")
    assert (done.code, done.stderr) == (0, f"{MPIJOB} is being deleted\n")
    assert all("--wait=false" in call for call in life.calls if call.startswith("delete"))


def test_delete_keeps_claims_and_names_them(mlpack: Mlpack, life: Life) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results"}, "spec": {}}
    life.overlays["multi-node"].append(claim)
    life.deploy()
    done = mlpack(*DELETE, "--keep-results")
    assert (done.code, done.stderr) == (0, f"kept: persistentvolumeclaim/results\n{MPIJOB} is gone\n")
    assert [each["kind"] for each in life.objects] == ["PersistentVolumeClaim"]


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ('error: the server doesn\'t have a resource type "mpijobs"', 0, f"{MPIJOB} is gone\n"),
        (
            'Error from server (Forbidden): mpijobs is forbidden: User "me" cannot delete resource "mpijobs"',
            7,
            'error: the cluster refuses it: mpijobs is forbidden: User "me" cannot delete resource "mpijobs"\n',
        ),
    ],
    ids=["no operator", "forbidden"],
)
def test_delete_of_a_workload_that_the_cluster_refuses(
    mlpack: Mlpack, life: Life, said: str, code: int, message: str
) -> None:
    life.refused["delete mpijobs"] = said
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (code, message)
    assert any(call.startswith("delete configmap/") for call in life.calls) is (code == 0)


CONFLICT = (
    'error: Apply failed with 2 conflicts: conflicts with "bob" using v1:\n- .data.FAULT\n- .data.LEVEL\n'
    "Please review the fields above--they currently have other managers.\n"
)
FULL = "exceeded quota: full, requested: pods=1, used: pods=2, limited: pods=2"
SPENT = "asked for pods=1, used pods=2 of pods=2"
NO_KIND = 'error: resource mapping not found for name: "x" from "f": no matches for kind "{}" in version "{}"'


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            CONFLICT,
            "somebody else has changed what is there: bob has set .data.FAULT, .data.LEVEL",
            "--force-conflicts sets these fields as the package says",
        ),
        (
            NO_KIND.format("MPIJob", "kubeflow.org/v2beta1"),
            "the cluster knows no MPIJob (kubeflow.org/v2beta1): its operator is not installed",
            "mlpack operator install mpi",
        ),
        (
            NO_KIND.format("Queue", "x.io/v1"),
            "the cluster knows no Queue (x.io/v1): its operator is not installed",
            None,
        ),
        (
            f'Error from server (Forbidden): error when creating "f": pods "x" is forbidden: {FULL}',
            f"the cluster refuses it: the quota full of the namespace does not allow another pod: {SPENT}",
            "wait for what runs there to end, or ask for less",
        ),
    ],
    ids=["conflict", "no operator", "no kind", "quota"],
)
def test_why_something_is_not_applied_or_not_deleted(said: str, message: str, hint: str | None) -> None:
    error = explained(said)
    assert (str(error), error.hint, error.exit_code) == (message, hint, 7)
