"""Tests of `mlpack results`: the pod or claim that it copies from, and its messages when it cannot."""

from __future__ import annotations

import errno
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_results import member, packed
from tests.fake_cluster import item
from tests.life import JOB, POD, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

RESULTS = ("results", "hello-mpi", "here", "-n", "team")
MPIJOB = f"mpijob/{JOB}"
OUTPUT = "/ROOT/hello-mpi/output"
ONE_FILE = packed((member("./a.txt"), b"hello")).getvalue()
NOTE = "note: the files were not compared by digest: the image has no find, which is needed for this\n"
FROM_WORKER = f"from {JOB}-worker-0:{OUTPUT} to here\n{NOTE}"
STATUS_HINT = "hint: mlpack status hello-mpi -n team\n"


@pytest.fixture
def claimed(life: Life) -> Life:
    """A cluster in which the workers write their results to the claim disk, which is not deleted with the pods."""
    workload = next(obj for obj in life.overlays["multi-node"] if obj["kind"] == "MPIJob")
    volumes = workload["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"]
    output = next(volume for volume in volumes if volume["name"] == "output")
    del output["emptyDir"]
    output["persistentVolumeClaim"] = {"claimName": "disk"}
    life.objects.append(item("PersistentVolumeClaim", "disk"))
    return life


def deleted(life: Life) -> list[str]:
    return [call for call in life.calls if call.startswith("delete")]


@pytest.fixture
def running(life: Life) -> Life:
    """The cluster, in which the pods of the MPIJob run."""
    life.deploy()
    life.start()
    return life


def test_results_copies_plain_files_of_first_worker(mlpack: Mlpack, running: Life, tmp_path: Path) -> None:
    link = (member("./link", tarfile.SYMTYPE, "/etc/passwd"), b"")
    running.archive = packed((member("./a.txt"), b"hello"), (member("./b.txt"), b"you"), link).getvalue()
    done = mlpack(*RESULTS)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == (
        f"skipped: not a plain file, or a name that is not allowed here: link\ncopied 2 files, 8 bytes, {FROM_WORKER}"
    )
    assert (tmp_path / "here/a.txt").read_bytes() == b"hello"
    command, _, script = running.calls[-1].partition(" -- sh -c ")
    assert command == f"--namespace=team exec --stdin {JOB}-worker-0 --container=worker"
    assert "; LC_ALL=C tar -c -f - " in script
    assert script.endswith(f" {OUTPUT}")


def test_results_copies_from_worker_by_index(mlpack: Mlpack, running: Life) -> None:
    running.archive = ONE_FILE
    done = mlpack(*RESULTS, "--worker", "1")
    assert (done.code, done.stderr) == (0, f"copied 1 file, 5 bytes, from {JOB}-worker-1:{OUTPUT} to here\n{NOTE}")
    done = mlpack(*RESULTS, "--worker", "2")
    assert (done.code, done.stderr) == (2, "error: worker 2 not found\nhint: there are 0 to 1\n")


@pytest.mark.usefixtures("life")
def test_results_reports_missing_job(mlpack: Mlpack) -> None:
    done = mlpack(*RESULTS)
    assert done.code == 7
    assert done.stderr == (
        f"error: {MPIJOB} not found: what it wrote to emptyDir was deleted with its pods\n"
        "hint: mlpack deploy hello-mpi -n team\n"
    )


def test_results_reports_job_that_has_not_started(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (7, f"error: {MPIJOB} is not running yet\n{STATUS_HINT}")


def test_results_reports_results_deleted_with_ended_pod(mlpack: Mlpack, life: Life) -> None:
    life.deploy("single-node")["status"] = {"phase": "Succeeded"}
    done = mlpack(*RESULTS, "--overlay", "single-node")
    assert done.code == 7
    assert done.stderr == (
        f"error: pod/{POD} has ended, and its results were deleted with its pods: OUTPUT_DIR is on emptyDir\n"
        "hint: copy them while it is running, or use persistent storage: mlpack configure --storage\n"
    )


@pytest.mark.parametrize(
    ("stderr", "message", "hint"),
    [
        (
            'OCI runtime exec failed: exec: "tar": executable file not found in $PATH: unknown',
            "the image of worker has no tar, which is needed for copying",
            "add tar to the image",
        ),
        (
            f"tar: {OUTPUT}: Cannot open: No such file or directory",
            f"{OUTPUT} does not exist yet",
            "check with mlpack logs whether the work has started",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            (
                "the copy was interrupted: the cluster rejects your credentials: "
                "You must be logged in to the server (Unauthorized)"
            ),
            "log in again; kubectl config view --minify shows the user",
        ),
    ],
)
def test_results_explains_error_of_copy(mlpack: Mlpack, running: Life, stderr: str, message: str, hint: str) -> None:
    running.broke, running.is_cut = (1, stderr), "tar: " not in stderr
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (7, f"error: {message}\nhint: {hint}\n")


def test_results_exits_with_5_for_truncated_tar(mlpack: Mlpack, running: Life) -> None:
    running.archive = ONE_FILE[:700]
    done = mlpack(*RESULTS)
    assert done.code == 5
    assert done.stderr.startswith("error: ")


def test_results_lists_files_that_differ_from_pod(mlpack: Mlpack, running: Life) -> None:
    stderr = (
        "tar: ./key: Cannot open: Permission denied\ntar: ./a.txt: file changed as we read it\n"
        "tar: ./tmp: File removed before we read it\ntar: ./sock: socket ignored\n"
        "tar: Exiting with failure status due to previous errors\ncommand terminated with exit code 2"
    )
    running.archive, running.broke = ONE_FILE, (2, stderr)
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (
        7,
        (
            "skipped: not a plain file: sock\nnot read: key: Permission denied\n"
            "changed while it was read, and may be inconsistent: a.txt\n"
            f"removed or renamed before it was read: tmp\ncopied 1 file, 5 bytes, {FROM_WORKER}"
            "error: the copy differs from the results in the pod: "
            "1 could not be read, 1 changed while it was read, 1 was removed before it was read\n"
            "hint: the pod's user cannot read them: check with kubectl exec POD -- id\n"
        ),
    )


def test_results_reports_silent_kubelet_and_times_out(mlpack: Mlpack, running: Life) -> None:
    running.silence = 100
    done = mlpack(*RESULTS)
    pod = f"pod/{JOB}-worker-0"
    assert (done.code, done.stderr) == (
        8,
        (
            f"no data received from {pod} for 8 s; waiting until it is 60 s\n"
            f"error: no data received from {pod} for 60 s\n"
            "hint: kubectl get nodes; run it again: the files copied so far are kept\n"
        ),
    )
    assert mlpack(*RESULTS, "--timeout", "5s").stderr.startswith(f"error: no data received from {pod} for 5 s\n")
    running.archive = ONE_FILE
    patient = mlpack(*RESULTS, "--timeout", "0")
    assert patient.code == 0
    assert patient.stderr == f"no data received from {pod} for 8 s; waiting\ncopied 1 file, 5 bytes, {FROM_WORKER}"


def test_results_reports_why_pod_ended_during_copy(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    def evict() -> None:
        evicted = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
        life.find("Pod", f"{JOB}-worker-0")["status"] = evicted

    life.deploy()
    life.start()
    life.archive = packed((member("./a.txt"), b"hello"), (member("./b.txt"), b"x" * 4000)).getvalue()[:2000]
    life.broke, life.during_command, life.is_cut = (137, "command terminated with exit code 137"), evict, True
    done = mlpack(*RESULTS)
    why = f"pod/{JOB}-worker-0: evicted: low on memory"
    assert (done.code, done.stderr) == (
        7,
        f"error: the copy was interrupted: {why}\nhint: run it again; the files copied so far are kept\n",
    )
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["a.txt"]


def test_results_fails_for_incomplete_archive_though_kubectl_succeeds(mlpack: Mlpack, running: Life) -> None:
    running.archive, running.is_cut = ONE_FILE, True
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (
        7,
        (
            "error: the copy was interrupted: the connection ended before the archive did\n"
            "hint: run it again; the files copied so far are kept\n"
        ),
    )


@pytest.mark.usefixtures("running")
def test_results_reports_full_disk(mlpack: Mlpack, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("packager.cluster.copying.receive", full)
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (
        6,
        (
            "error: here cannot be written: no space left on device\n"
            "hint: the files copied so far are kept; free some space and run it again\n"
        ),
    )


def test_results_reads_claim_with_temporary_pod(mlpack: Mlpack, claimed: Life) -> None:
    claimed.archive = ONE_FILE
    done = mlpack(*RESULTS)
    assert done.code == 0
    first, second, _ = done.stderr.splitlines()
    assert first == "no pod is running: starting a temporary pod to read the claim disk"
    (reader,) = claimed.readers
    assert second == f"copied 1 file, 5 bytes, from {reader['metadata']['name']}:{OUTPUT} to here"
    (container,) = reader["spec"]["containers"]
    assert {"name": "output", "persistentVolumeClaim": {"claimName": "disk"}} in reader["spec"]["volumes"]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["output"]
    assert deleted(claimed) == [
        f"delete pods/{reader['metadata']['name']} --ignore-not-found --wait=false --grace-period=1"
    ]


def test_results_reports_refused_reader_pod(mlpack: Mlpack, claimed: Life) -> None:
    claimed.refused["create"] = (
        'Error from server (Forbidden): error when creating "reader.json": pods "x" is forbidden: '
        "exceeded quota: full, requested: pods=1, used: pods=2, limited: pods=2"
    )
    done = mlpack(*RESULTS)
    assert done.code == 7
    assert done.stderr.endswith(
        "error: the pod that reads the results cannot be created: the cluster rejects it: "
        "the quota full of the namespace does not allow another pod: asked for pods=1, used pods=2 of pods=2\n"
        "hint: wait for running pods to end, or request less\n"
    )


def test_results_reports_reader_pod_that_cannot_be_deleted(mlpack: Mlpack, claimed: Life) -> None:
    claimed.archive = ONE_FILE
    claimed.refused["delete pods"] = 'Error from server (Forbidden): pods "x" is forbidden: User "me" cannot delete'
    done = mlpack(*RESULTS)
    pod = claimed.readers[0]["metadata"]["name"]
    why = 'pods "x" is forbidden: User "me" cannot delete'
    assert done.code == 0
    assert done.stderr.endswith(f"pod/{pod} could not be deleted, and ends by itself within 60 minutes: {why}\n")


def test_results_reports_missing_claim_without_creating_reader(mlpack: Mlpack, claimed: Life) -> None:
    claimed.objects = [obj for obj in claimed.objects if obj["kind"] != "PersistentVolumeClaim"]
    done = mlpack(*RESULTS)
    assert (done.code, claimed.readers) == (7, [])
    assert done.stderr.endswith(
        "error: claim disk not found in the namespace team\n"
        "hint: create it, or let `mlpack run PACKAGE --claim-size SIZE` create it\n"
    )


def test_results_reads_claim_without_permission_to_get_claims(mlpack: Mlpack, claimed: Life) -> None:
    claimed.objects = []
    claimed.refused["get persistentvolumeclaims"] = 'Error from server (Forbidden): persistentvolumeclaims "disk"'
    claimed.archive = packed((member("./a.txt"), b"hello")).getvalue()
    assert mlpack(*RESULTS).code == 0
    assert len(claimed.readers) == 1


def test_results_reports_reader_pod_that_does_not_run(mlpack: Mlpack, claimed: Life) -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    waiting = [{"name": "reader", "image": "a:1", "state": state}]
    claimed.reader_status = {"phase": "Pending", "containerStatuses": waiting}
    done = mlpack(*RESULTS)
    assert done.code == 8
    assert done.stderr.endswith(
        "error: the pod that reads the results: "
        "the image docker.io/mpioperator/mpi-pi:openmpi cannot be pulled: not found\n"
        "hint: build and push it, or correct REGISTRY in mlops.env\n"
    )
    assert len(deleted(claimed)) == 1


def test_results_reads_claim_through_any_running_worker(mlpack: Mlpack, claimed: Life) -> None:
    claimed.deploy()
    claimed.objects += [worker(0, state={"terminated": {"exitCode": 0}}), worker(1)]
    claimed.archive = ONE_FILE
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (0, f"copied 1 file, 5 bytes, from {JOB}-worker-1:{OUTPUT} to here\n{NOTE}")
