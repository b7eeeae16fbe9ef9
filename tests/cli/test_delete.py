"""What delete says of what goes and of what stays; and what the server has against an apply or a delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.kubectl.refusals import explained_error
from tests.fake_cluster import item
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
    assert (done.code, done.stderr) == (0, f"{MPIJOB} is deleted\n")
    assert life.objects == []


def test_delete_without_waiting_says_that_it_goes_on(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    done = mlpack(*DELETE, "--no-wait")
    assert (done.code, done.stderr) == (0, f"{MPIJOB} is being deleted\n")
    last_look = max(index for index, call in enumerate(life.calls) if call.startswith("get ") and JOB in call)
    assert sum(call.startswith("delete ") for call in life.calls[last_look:]) == 4


def test_delete_waits_for_a_pod_that_was_made_after_the_deletion(mlpack: Mlpack, life: Life) -> None:
    owner = {"uid": life.deploy()["metadata"]["uid"]}
    labels = {"training.kubeflow.org/job-name": JOB}
    late = item(
        "Pod", f"{JOB}-worker-0", metadata={"labels": labels, "ownerReferences": [owner], "finalizers": ["held"]}
    )
    theirs = item("Pod", f"{JOB}-worker-9", metadata={"labels": labels, "ownerReferences": [{"uid": "another"}]})
    life.objects += [late, theirs]
    waits: list[float] = []

    def collect(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3 and late in life.objects:
            life.objects.remove(late)

    life.wait = collect
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (0, f"{MPIJOB} is deleted\n")
    assert len(waits) >= 3
    assert life.objects == [theirs]


LOGGED_OUT = "error: You must be logged in to the server (Unauthorized)"


def hold(life: Life, *, answers_again: bool) -> None:
    """Let the deleted job stay, and the cluster refuse the user while that is waited for."""
    life.deploy()["metadata"]["finalizers"] = ["held"]

    def wait(_seconds: float) -> None:
        if life.refused and answers_again:
            life.refused.clear()
            life.objects = [obj for obj in life.objects if obj["kind"] != "MPIJob"]
        else:
            life.refused["get mpijob"] = LOGGED_OUT

    life.wait = wait


def test_a_token_that_expires_while_it_waits(mlpack: Mlpack, life: Life) -> None:
    hold(life, answers_again=False)
    done = mlpack(*DELETE)
    why = "the cluster rejects your credentials: You must be logged in to the server (Unauthorized)"
    assert (done.code, done.stderr) == (
        7,
        (
            f"error: {MPIJOB}: deletion was requested, but not confirmed: {why}\n"
            "hint: log in again; kubectl config view --minify shows the user\n"
        ),
    )


def test_a_cluster_that_goes_silent_until_the_time_is_over(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["finalizers"] = ["held"]
    life.wait = lambda _seconds: life.go_silent()
    done = mlpack(*DELETE, "--timeout", "60s")
    assert (done.code, done.stderr) == (
        8,
        f"error: {MPIJOB}: may not be fully deleted after 60 s\nhint: run it again to continue waiting\n",
    )


def test_a_refusal_that_passes_while_it_waits(mlpack: Mlpack, life: Life) -> None:
    hold(life, answers_again=True)
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (0, f"{MPIJOB} is deleted\n")


def test_a_user_who_may_not_see_pods_can_delete(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.denied.add("list pods")
    done = mlpack(*DELETE)
    assert (done.code, done.stderr, life.objects) == (0, f"{MPIJOB} is deleted\n", [])


def test_delete_keeps_claims_and_names_them(mlpack: Mlpack, life: Life) -> None:
    labels = life.overlays["multi-node"][0]["metadata"]["labels"]
    metadata = {"name": "results", "labels": labels}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}
    life.overlays["multi-node"].append(claim)
    life.deploy()
    done = mlpack(*DELETE, "--keep-results")
    assert (done.code, done.stderr) == (0, f"kept: persistentvolumeclaim/results\n{MPIJOB} is deleted\n")
    assert [obj["kind"] for obj in life.objects] == ["PersistentVolumeClaim"]


def test_without_the_operator_the_rest_is_deleted(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects = [item for item in life.objects if item["kind"] != "MPIJob"]
    del life.served["kubeflow.org/v2beta1"]
    done = mlpack(*DELETE)
    names = ", ".join(f"configmap/hello-mpi-{name}-multi-node" for name in ("env", "runtime", "scripts"))
    assert (done.code, life.objects) == (0, [])
    assert done.stderr == f"{MPIJOB} does not exist\n{names} are deleted\n"


def test_delete_says_that_nothing_existed(mlpack: Mlpack, life: Life) -> None:
    done = mlpack(*DELETE)
    assert (done.code, done.stderr, life.objects) == (0, f"{MPIJOB} does not exist\nnothing was deleted\n", [])


def test_delete_of_a_workload_that_the_cluster_refuses(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    objects_before = list(life.objects)
    message = 'mpijobs is forbidden: User "me" cannot delete resource "mpijobs"'
    life.refused["delete mpijobs"] = f"Error from server (Forbidden): {message}"
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (
        7,
        (
            f"error: the cluster rejects it: {message}\n"
            "hint: this needs permission to delete mpijobs: ask the cluster administrator\n"
        ),
    )
    assert life.objects == objects_before


CONFLICT = (
    'error: Apply failed with 2 conflicts: conflicts with "bob" using v1:\n- .data.FAULT\n- .data.LEVEL\n'
    "Please review the fields above--they currently have other managers.\n"
)
STARTING = 'Error from server (Forbidden): pods "x" is forbidden: not yet ready to handle request'
FULL = "exceeded quota: full, requested: pods=1, used: pods=2, limited: pods=2"
SPENT = "asked for pods=1, used pods=2 of pods=2"
NO_KIND = 'error: resource mapping not found for name: "x" from "f": no matches for kind "{}" in version "{}"'


@pytest.mark.parametrize(
    ("stderr", "message", "hint"),
    [
        (
            CONFLICT,
            "the object was changed by another field manager: bob has set .data.FAULT, .data.LEVEL",
            "--force-conflicts sets these fields as the package says",
        ),
        (
            NO_KIND.format("MPIJob", "kubeflow.org/v2beta1"),
            "the cluster does not serve MPIJob (kubeflow.org/v2beta1): its operator is not installed",
            None,
        ),
        (
            NO_KIND.format("Queue", "x.io/v1"),
            "the cluster does not serve Queue (x.io/v1): its operator is not installed",
            None,
        ),
        (
            f'Error from server (Forbidden): error when creating "f": pods "x" is forbidden: {FULL}',
            f"the cluster rejects it: the quota full of the namespace does not allow another pod: {SPENT}",
            "wait for running pods to end, or request less",
        ),
        (
            STARTING,
            f"the cluster does not answer: {STARTING}",
            "kubectl cluster-info",
        ),
    ],
    ids=["conflict", "no operator", "no kind", "quota", "starting"],
)
def test_why_something_is_not_applied_or_not_deleted(stderr: str, message: str, hint: str | None) -> None:
    error = explained_error(stderr)
    assert (str(error), error.hint, error.exit_code) == (message, hint, 7)
