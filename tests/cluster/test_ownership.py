"""Tests of ownership: deploy and delete leave foreign objects, and delete asks before it removes another user's job."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from packager.base.process import Finished
from tests.conftest import Outcome
from tests.fake_cluster import Object, item, managed
from tests.life import JOB, POD, Life, at_a_terminal

Mlpack = Callable[..., Outcome]


DEPLOY = ("deploy", "hello-mpi", "-n", "team", "--no-wait")
DELETE = ("delete", "hello-mpi", "-n", "team")
SINGLE = ("--overlay", "single-node")
MPIJOB = f"mpijob/{JOB}"
ENV = "hello-mpi-env-multi-node"
ELSEWHERE = "hint: use another namespace (-n), or another nameSuffix in the overlay's kustomization.yaml\n"


def foreign(kind: str, name: str, manager: str = "kubectl-create", **fields: Any) -> Object:
    """Return an object that another manager has created."""
    obj = item(kind, name, **fields)
    obj["metadata"]["managedFields"] = [managed(manager, obj)]
    return obj


def names(life: Life) -> list[str]:
    return sorted(f"{obj['kind']}/{obj['metadata']['name']}" for obj in life.objects)


def test_deploy_refuses_names_of_foreign_objects(mlpack: Mlpack, life: Life) -> None:
    life.objects = [foreign("Pod", POD, "kubectl-run"), foreign("ConfigMap", "hello-mpi-env-single-node")]
    before = [dict(obj) for obj in life.objects]
    done = mlpack(*DEPLOY, *SINGLE)
    assert (done.code, done.stderr) == (
        7,
        (
            "error: objects with these names already exist and belong to others: "
            f"configmap/hello-mpi-env-single-node (managed by kubectl-create), pod/{POD} (managed by kubectl-run); "
            f"nothing was applied\n{ELSEWHERE}"
        ),
    )
    assert life.objects == before
    assert not any(call.startswith(("apply", "delete")) for call in life.calls)


def test_deploy_refuses_an_object_of_another_package(mlpack: Mlpack, life: Life) -> None:
    labels = {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/name": "other"}
    life.objects = [foreign("ConfigMap", ENV, metadata={"labels": labels, "annotations": {"mlpack/digest": "x"}})]
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert f"configmap/{ENV} (of the package other); nothing was applied\n" in done.stderr


@pytest.mark.parametrize("moment", [1, 2], ids=["before the dry run", "before the apply"])
def test_deploy_gives_back_an_object_that_another_user_creates_during_the_deploy(
    mlpack: Mlpack, life: Life, moment: int
) -> None:
    applies = 0

    def make(argv: Sequence[str]) -> None:
        nonlocal applies
        applies += "apply" in argv
        if "apply" in argv and applies == moment:
            life.objects.append(foreign("ConfigMap", ENV, data={"THEIRS": "1"}))

    life.first = make
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert done.stderr.endswith(
        f"error: objects with these names already exist and belong to others: configmap/{ENV} "
        "(managed by kubectl-create); "
        f"nothing was applied\n{ELSEWHERE}"
    )
    given_back = [call for call in life.calls if call.startswith("apply")][moment:]
    assert len(given_back) == moment - 1


def test_delete_keeps_and_names_foreign_objects(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects = [obj for obj in life.objects if obj["metadata"]["name"] not in (JOB, ENV)]
    life.objects += [foreign("MPIJob", JOB), foreign("ConfigMap", ENV)]
    done = mlpack(*DELETE, "-y")
    assert (done.code, done.stdout, done.stderr) == (
        7,
        "",
        (
            f"error: not deleted, because it does not belong to the package alone: configmap/{ENV} "
            "(managed by kubectl-create), "
            f"{MPIJOB} (managed by kubectl-create); everything else is deleted\n"
        ),
    )
    assert names(life) == [f"ConfigMap/{ENV}", f"MPIJob/{JOB}"]


def test_delete_keeps_an_object_with_data_of_other_managers(mlpack: Mlpack, life: Life) -> None:
    assert mlpack(*DEPLOY).code == 0
    merged = life.find("ConfigMap", ENV)
    merged["data"]["THEIRS"] = "1"
    merged["metadata"]["managedFields"].append(managed("kubectl-create", {"metadata": {}, "data": {"THEIRS": "1"}}))
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (
        7,
        (
            f"error: not deleted, because it does not belong to the package alone: configmap/{ENV} "
            "(kubectl-create has set data.THEIRS); everything else is deleted\n"
        ),
    )
    assert names(life) == [f"ConfigMap/{ENV}"]


def test_delete_removes_an_object_with_data_of_an_earlier_build(mlpack: Mlpack, life: Life) -> None:
    life.overlays["multi-node"][0]["data"]["OLD"] = "1"
    assert mlpack(*DEPLOY).code == 0
    del life.overlays["multi-node"][0]["data"]["OLD"]
    assert mlpack(*DELETE).code == 0
    assert life.objects == []


def test_delete_removes_objects_applied_by_kubectl_alone(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    assert (mlpack(*DELETE).code, life.objects) == (0, [])


def test_delete_removes_unlabelled_objects_applied_by_mlpack(mlpack: Mlpack, life: Life) -> None:
    for manifest in life.overlays["multi-node"]:
        del manifest["metadata"]["labels"]
    assert mlpack(*DEPLOY).code == 0
    assert mlpack(*DEPLOY).code == 0
    assert (mlpack(*DELETE).code, life.objects) == (0, [])


def test_delete_keeps_an_object_that_has_replaced_ours(mlpack: Mlpack, life: Life) -> None:
    def replace(argv: Sequence[str]) -> None:
        if "delete" in argv and f"/mpijobs/{JOB}" in " ".join(argv):
            life.find("MPIJob", JOB)["metadata"]["uid"] = "another"

    life.deploy()
    life.first = replace
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (
        7,
        f"error: {MPIJOB} was replaced by another object of this name, which was kept\n",
    )
    assert f"MPIJob/{JOB}" in names(life)


BOB = f"{MPIJOB} was deployed by bob@laptop, from another build (0123456789ab)"


def of_bob(life: Life) -> None:
    """Deploy the job as another user, from another build."""
    notes = {"mlpack/digest": "sha256:0123456789abcdef", "mlpack/deployed-by": "bob@laptop"}
    life.deploy()["metadata"]["annotations"] = notes


def test_delete_refuses_a_job_of_another_user_and_build_without_yes(mlpack: Mlpack, life: Life) -> None:
    of_bob(life)
    done = mlpack(*DELETE)
    assert (done.code, done.stderr) == (9, f"error: {BOB}; nothing was deleted\nhint: -y deletes it anyway\n")
    assert len(life.objects) == 4
    assert (mlpack(*DELETE, "-y").code, life.objects) == (0, [])


@pytest.mark.parametrize(("typed", "code", "left"), [("n\n", 1, 4), ("y\n", 0, 0)])
def test_delete_asks_on_a_terminal_before_deleting_a_job_of_another_user(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, left: int
) -> None:
    of_bob(life)
    at_a_terminal(monkeypatch, typed=typed)
    done = mlpack(*DELETE)
    assert (done.code, len(life.objects)) == (code, left)
    assert f"{BOB}. Delete it anyway?" in done.stderr


def test_status_notes_that_another_user_deployed_the_job(mlpack: Mlpack, life: Life) -> None:
    of_bob(life)
    done = mlpack("status", "hello-mpi", "-n", "team")
    note = f"{MPIJOB} was deployed by bob@laptop, from another build (0123456789ab)"
    assert done.stdout.splitlines()[1] == f"note: {note}"
    assert mlpack("status", "hello-mpi", "-n", "team", "-o", "json").json["note"] == note


def coscheduling_group(life: Life) -> Object:
    """Return the PodGroup of an earlier deploy with the option gang."""
    [workload] = [entry for entry in life.overlays["multi-node"] if entry["kind"] == "MPIJob"]
    group = item("PodGroup", JOB)
    group |= {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "spec": {"minMember": 2}}
    group["metadata"] |= {"labels": workload["metadata"]["labels"]}
    group["metadata"]["managedFields"] = [managed("mlpack", group)]
    return group


def test_groups_of_a_scheduler_that_is_not_installed_are_not_requested(mlpack: Mlpack, life: Life) -> None:
    for verb in [DEPLOY, DELETE]:
        assert mlpack(*DEPLOY).code == 0
        life.calls.clear()
        assert mlpack(*verb).code == 0
        assert (
            len([call for call in life.calls if call.startswith("get --raw /apis")]) <= 2
        )  # the groups, and the workload
        assert not any("podgroup" in call or "/readyz" in call for call in life.calls)


@pytest.mark.parametrize("refusal", ["", 'Error from server (Forbidden): forbidden: User "me" cannot get path "/apis"'])
def test_delete_removes_the_group_of_an_option_that_is_off(mlpack: Mlpack, life: Life, refusal: str) -> None:
    assert mlpack(*DEPLOY).code == 0
    life.objects.append(coscheduling_group(life))
    life.served["scheduling.x-k8s.io/v1alpha1"] = ["PodGroup"]
    life.first = lambda argv: Finished(1, "", refusal) if refusal and "/apis" in argv else None
    assert mlpack(*DELETE).code == 0
    assert life.objects == []
