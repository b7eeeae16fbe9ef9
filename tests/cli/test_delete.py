"""Tests of `mlpack delete`: the messages about deleted and kept objects, and the explanation of a server's refusal."""

from pathlib import Path

from tests.conftest import Mlpack
from tests.life import JOB, Life

MPIJOB = f"mpijob/{JOB}"
DELETE = ("delete", "hello-mpi", "-n", "team")


def test_delete_dry_run_prints_the_objects_and_deletes_nothing(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    before = [*life.objects]
    done = mlpack(*DELETE, "--dry-run")
    assert (done.code, done.stdout.splitlines()[0]) == (0, MPIJOB)
    assert done.stderr == "dry run: nothing was deleted\n"
    assert life.objects == before
    planned = mlpack(*DELETE, "--dry-run", "-o", "json").json
    deleted = mlpack(*DELETE, "-o", "json").json
    assert {**planned, "gone": True} == deleted
    assert planned["objects"] == done.stdout.splitlines()


LOGGED_OUT = "error: You must be logged in to the server (Unauthorized)"


def test_delete_reports_unconfirmed_deletion_when_token_expires(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["finalizers"] = ["held"]
    life.wait = lambda _seconds: life.refused.update({"get mpijob": LOGGED_OUT})
    done = mlpack(*DELETE)
    why = "the cluster rejects your credentials: You must be logged in to the server (Unauthorized)"
    assert (done.code, done.stderr) == (
        7,
        (
            f"error: {MPIJOB}: deletion was requested, but not confirmed: {why}\n"
            "hint: log in again; kubectl config view --minify shows the user\n"
        ),
    )


def test_delete_reports_the_job_that_a_finalizer_keeps(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["finalizers"] = ["held"]
    done = mlpack(*DELETE, "--timeout", "60s")
    show = f"kubectl get mpijob.kubeflow.org/{JOB} -o yaml shows its finalizers, which its pods may have too"
    message = f"error: {MPIJOB}: not deleted after 60 s\nhint: run it again to continue waiting; {show}\n"
    assert (done.code, done.stderr) == (8, message)


def test_delete_works_without_permission_to_list_pods(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.denied.add("list pods")
    done = mlpack(*DELETE)
    assert (done.code, done.stderr, life.objects) == (0, f"{MPIJOB} is deleted\n", [])


def test_delete_keep_results_keeps_and_names_claims(mlpack: Mlpack, life: Life) -> None:
    labels = life.overlays["multi-node"][0]["metadata"]["labels"]
    metadata = {"name": "results", "labels": labels}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}
    life.overlays["multi-node"].append(claim)
    life.deploy()
    done = mlpack(*DELETE, "--keep-results")
    assert (done.code, done.stderr) == (0, f"kept: persistentvolumeclaim/results\n{MPIJOB} is deleted\n")
    assert [obj["kind"] for obj in life.objects] == ["PersistentVolumeClaim"]


def test_delete_keeps_all_objects_when_cluster_refuses_workload(mlpack: Mlpack, life: Life) -> None:
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


def test_delete_finds_objects_of_an_overlay_that_cannot_be_rendered(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    life.deploy()
    overlay = tmp_path / "hello-mpi/quickstart/k8s/mlops/multi-node/kustomization.yaml"
    overlay.write_text("resources: [\n", encoding="utf-8")
    done = mlpack(*DELETE)
    assert done.code == 0, done.stderr
    assert "cannot be rendered, so its objects are found by their labels" in done.stderr
    assert f"{MPIJOB} is deleted\n" in done.stderr
    assert [item for item in life.objects if item["kind"] == "MPIJob"] == []
    again = mlpack(*DELETE)
    assert again.code == 5, again.stderr
