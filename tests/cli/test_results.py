"""Tests of `mlpack results`: the pod or claim that it copies from, and its messages when it cannot."""

from pathlib import Path

import pytest

from packager.base.errors import ClusterError
from packager.cli.printing import print_results
from packager.cluster.results import Results
from tests.conftest import Mlpack
from tests.fake_cluster import item
from tests.life import JOB, OUTPUT, POD, Life
from tests.local_pod import write

RESULTS = ("results", "hello-mpi", "here", "-n", "team")
MPIJOB = f"mpijob/{JOB}"
FROM_WORKER = f"from {JOB}-worker-0:{OUTPUT} to here\n"


@pytest.fixture
def claimed(life: Life, tmp_path: Path) -> Life:
    """A cluster in which the workers write their results to the claim disk, which is not deleted with the pods."""
    life.output = write(tmp_path / "pod", {"a.txt": b"hello"})
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
def running(life: Life, tmp_path: Path) -> Life:
    """The cluster, in which the pods of the MPIJob run."""
    life.output = write(tmp_path / "pod", {"a.txt": b"hello"})
    life.deploy()
    life.start()
    return life


def test_results_copies_plain_files_of_first_worker(mlpack: Mlpack, running: Life, tmp_path: Path) -> None:
    write(running.output, {"b.txt": b"you"})
    (running.output / "link").symlink_to("/etc/passwd")
    done = mlpack(*RESULTS)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == (
        f"skipped: not a plain file, or a name that is not allowed here: link\ncopied 2 files, 8 bytes, {FROM_WORKER}"
    )
    assert (tmp_path / "here/a.txt").read_bytes() == b"hello"
    assert running.calls[-1].startswith(f"--namespace=team exec --stdin {JOB}-worker-0 --container=worker -- sh -c ")
    again = mlpack(*RESULTS)
    assert again.stderr.endswith("; 2 files had arrived before\n")


@pytest.mark.usefixtures("running")
def test_results_copies_from_worker_by_index(mlpack: Mlpack) -> None:
    done = mlpack(*RESULTS, "--worker", "1")
    assert (done.code, done.stderr) == (0, f"copied 1 file, 5 bytes, from {JOB}-worker-1:{OUTPUT} to here\n")
    done = mlpack(*RESULTS, "--worker", "2")
    assert (done.code, done.stderr) == (2, "error: worker 2 not found\nhint: there are 0 to 1\n")


@pytest.mark.usefixtures("life")
def test_results_reports_missing_job(mlpack: Mlpack) -> None:
    done = mlpack(*RESULTS)
    assert done.code == 7
    assert done.stderr == (
        f"error: {MPIJOB} not found: what it wrote to emptyDir was deleted when its pods ended\n"
        "hint: mlpack deploy hello-mpi -n team\n"
    )


def test_results_reports_results_deleted_with_ended_pod(mlpack: Mlpack, life: Life) -> None:
    life.deploy("single-node")["status"] = {"phase": "Succeeded"}
    done = mlpack(*RESULTS, "--overlay", "single-node")
    assert done.code == 7
    assert done.stderr == (
        f"error: pod/{POD} has ended, and its results were deleted then: OUTPUT_DIR is on emptyDir\n"
        "hint: copy them while it is running, or keep them: "
        "mlpack configure hello-mpi --storage host-path (or nfs, pvc)\n"
    )


def test_results_that_differ_from_the_pod_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    copied = Results("worker-0", OUTPUT, "here", 1, 5, 0, (), 0, ("key: Permission denied",), ("a.txt",), ("tmp",))
    error = print_results(copied)
    assert isinstance(error, ClusterError)
    assert str(error) == (
        "the copy differs from the results in the pod: "
        "1 could not be read, 1 changed while it was read, 1 was removed before it was read"
    )
    assert capsys.readouterr().err.splitlines()[:3] == [
        "not read: key: Permission denied",
        "changed while it was read, and may be inconsistent: a.txt",
        "removed or renamed before it was read: tmp",
    ]


def test_results_reports_silent_kubelet_and_times_out(mlpack: Mlpack, running: Life) -> None:
    running.silence = 100
    done = mlpack(*RESULTS)
    nothing = f"nothing was sent to or received from pod/{JOB}-worker-0 for"
    assert (done.code, done.stderr) == (8, f"error: {nothing} 60 s\nhint: kubectl get nodes\n")
    assert mlpack(*RESULTS, "--timeout", "5s").stderr.startswith(f"error: {nothing} 5 s\n")
    patient = mlpack(*RESULTS, "--timeout", "0")
    assert patient.code == 0
    assert patient.stderr.endswith(f"copied 1 file, 5 bytes, {FROM_WORKER}")


def test_results_reports_why_pod_ended_during_copy(mlpack: Mlpack, running: Life) -> None:
    def evict() -> None:
        evicted = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
        running.find("Pod", f"{JOB}-worker-0")["status"] = evicted

    running.broke, running.during_command, running.is_cut = (137, "command terminated with exit code 137"), evict, True
    done = mlpack(*RESULTS)
    why = f"pod/{JOB}-worker-0: evicted: low on memory"
    assert (done.code, done.stderr) == (
        7,
        f"error: the copy was interrupted: {why}\nhint: run it again; the files copied so far are kept\n",
    )


def test_results_reads_claim_with_temporary_pod(mlpack: Mlpack, claimed: Life) -> None:
    done = mlpack(*RESULTS)
    assert done.code == 0
    first, second = done.stderr.splitlines()
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


def test_results_reports_missing_claim_without_creating_reader(mlpack: Mlpack, claimed: Life) -> None:
    claimed.objects = [obj for obj in claimed.objects if obj["kind"] != "PersistentVolumeClaim"]
    done = mlpack(*RESULTS)
    assert (done.code, claimed.readers) == (7, [])
    assert done.stderr.endswith(
        "error: claim disk not found in the namespace team\n"
        "hint: create it, or let `mlpack run PACKAGE --claim-size SIZE` create it\n"
    )


def test_results_reports_reader_pod_that_does_not_run(mlpack: Mlpack, claimed: Life) -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    waiting = [{"name": "files", "image": "a:1", "state": state}]
    claimed.reader_status = {"phase": "Pending", "containerStatuses": waiting}
    done = mlpack(*RESULTS)
    assert done.code == 8
    assert done.stderr.endswith(
        "error: the pod that reads the results: "
        "the image docker.io/mpioperator/mpi-pi:openmpi cannot be pulled: not found\n"
        "hint: build and push it, or correct REGISTRY in mlops.env\n"
    )
    assert len(deleted(claimed)) == 1
