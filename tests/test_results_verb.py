"""`mlpack results`: where it looks, and why it finds nothing."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.life import JOB, POD, worker
from tests.test_results import member, packed

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
STATUS_HINT = "hint: mlpack status hello-mpi -n team\n"


@pytest.fixture
def claimed(life: Life) -> Life:
    """The workers write on a claim, which outlives them."""
    workload = next(each for each in life.overlays["multi-node"] if each["kind"] == "MPIJob")
    volumes = workload["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"]
    output = next(each for each in volumes if each["name"] == "output")
    del output["emptyDir"]
    output["persistentVolumeClaim"] = {"claimName": "disk"}
    return life


def deleted(life: Life) -> list[str]:
    return [call for call in life.calls if call.startswith("delete")]


def test_they_come_out_of_the_first_worker(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    life.deploy()
    life.start()
    link = (member("./link", tarfile.SYMTYPE, "/etc/passwd"), b"")
    life.archive = packed((member("./a.txt"), b"hello"), (member("./b.txt"), b"you"), link).getvalue()
    done = mlpack(*RESULTS)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == (
        f"link is no plain file, and was left out\n2 files, 8 bytes, from {JOB}-worker-0:{OUTPUT} in here\n"
    )
    assert (tmp_path / "here/a.txt").read_bytes() == b"hello"
    assert life.calls[-1] == (f"--namespace=team exec {JOB}-worker-0 --container=worker -- tar -c -f - -C {OUTPUT} .")


def test_a_worker_can_be_named(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.archive = ONE_FILE
    done = mlpack(*RESULTS, "--worker", "1")
    assert (done.code, done.stderr) == (0, f"1 file, 5 bytes, from {JOB}-worker-1:{OUTPUT} in here\n")
    done = mlpack(*RESULTS, "--worker", "2")
    assert (done.code, done.stderr) == (2, "error: there is no worker 2\nhint: there are 0 to 1\n")


def test_a_folder_that_cannot_be_written(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    life.deploy()
    life.start()
    (tmp_path / "here").write_text("a file in the way")
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (6, "error: here cannot be written: file exists\n")


@pytest.mark.usefixtures("life")
def test_of_a_job_that_is_not_there_nothing_is_left(mlpack: Mlpack) -> None:
    done = mlpack(*RESULTS)
    assert done.code == 7
    assert done.stderr == (
        f"error: {MPIJOB} is not there, and what it wrote to emptyDir went with its pods\n"
        "hint: mlpack deploy hello-mpi -n team\n"
    )


def test_of_a_job_that_does_not_run_yet_there_is_nothing(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (7, f"error: {MPIJOB} does not run yet\n{STATUS_HINT}")


def test_of_a_job_that_has_ended_they_went_with_its_pods(mlpack: Mlpack, life: Life) -> None:
    life.deploy("single-node")["status"] = {"phase": "Succeeded"}
    done = mlpack(*RESULTS, "--overlay", "single-node")
    assert done.code == 7
    assert done.stderr == (
        f"error: pod/{POD} has ended, and its results went with its pods: OUTPUT_DIR is on emptyDir\n"
        "hint: copy them while it runs, or give it a storage that stays: mlpack configure --storage\n"
    )


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            'OCI runtime exec failed: exec: "tar": executable file not found in $PATH: unknown',
            "the image of worker has no tar, which copying takes",
            "add tar to the image",
        ),
        (
            f"tar: {OUTPUT}: Cannot open: No such file or directory",
            f"there is no {OUTPUT} yet",
            "has the work begun? mlpack logs",
        ),
        (
            "error: unexpected\nEOF",
            "the copy broke off: error: unexpected EOF",
            "run it again; what has arrived is kept",
        ),
    ],
)
def test_what_a_copy_fails_with_is_explained(mlpack: Mlpack, life: Life, said: str, message: str, hint: str) -> None:
    life.deploy()
    life.start()
    life.broke = (1, said)
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (7, f"error: {message}\nhint: {hint}\n")


def test_what_is_no_tar_is_5_when_kubectl_sees_nothing_wrong(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.archive = ONE_FILE[:700]
    done = mlpack(*RESULTS)
    assert done.code == 5
    assert done.stderr.startswith("error: ")


def test_a_file_that_grows_while_it_is_copied_is_no_failure(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.archive, life.broke = ONE_FILE, (1, "tar: ./a.txt: file changed as we read it")
    assert mlpack(*RESULTS).code == 0


def test_a_claim_is_read_by_a_pod_that_goes_again(mlpack: Mlpack, claimed: Life) -> None:
    claimed.archive = ONE_FILE
    done = mlpack(*RESULTS)
    assert done.code == 0
    first, second = done.stderr.splitlines()
    assert first == "no pod runs any more: another one reads the claim disk"
    (reader,) = claimed.readers
    assert second == f"1 file, 5 bytes, from {reader['metadata']['name']}:{OUTPUT} in here"
    (container,) = reader["spec"]["containers"]
    assert {"name": "output", "persistentVolumeClaim": {"claimName": "disk"}} in reader["spec"]["volumes"]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["output"]
    assert deleted(claimed) == [
        f"delete pods/{reader['metadata']['name']} --ignore-not-found --wait=false --grace-period=1"
    ]


def test_a_reader_that_the_cluster_refuses(mlpack: Mlpack, claimed: Life) -> None:
    claimed.refused["create"] = (
        'Error from server (Forbidden): error when creating "reader.json": pods "x" is forbidden: '
        "exceeded quota: full, requested: pods=1, used: pods=2, limited: pods=2"
    )
    done = mlpack(*RESULTS)
    assert done.code == 7
    assert done.stderr.endswith(
        "error: the pod that reads the results cannot be made: the cluster refuses it: "
        "the quota full of the namespace does not allow another pod: asked for pods=1, used pods=2 of pods=2\n"
        "hint: wait for what runs there to end, or ask for less\n"
    )


PULLING = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}


NO_IMAGE = [{"name": "reader", "image": "a:1", "state": PULLING}]


@pytest.mark.parametrize(
    ("status", "code", "message", "hint"),
    [
        (None, 7, "somebody has deleted NAME", ""),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "no disk"},
            7,
            "the pod that reads the results has failed: evicted: no disk",
            "hint: ask for more of what it lacked, in the overlay's resources\n",
        ),
        ({"phase": "Pending"}, 8, "the pod that reads the results: it does not start", ""),
        (
            {"phase": "Pending", "containerStatuses": NO_IMAGE},
            8,
            "the pod that reads the results: the image a:1 cannot be pulled: not found",
            "hint: build and push it, or correct REGISTRY in mlops.env\n",
        ),
    ],
    ids=["deleted", "failed", "silent", "no image"],
)
def test_a_reader_that_does_not_run(
    mlpack: Mlpack,
    claimed: Life,
    monkeypatch: pytest.MonkeyPatch,
    status: dict[str, Any] | None,
    code: int,
    message: str,
    hint: str,
) -> None:
    monkeypatch.setattr("packager.cluster.results._READER_PATIENCE", -1.0)
    claimed.reader_status = status
    done = mlpack(*RESULTS)
    assert done.code == code
    name = claimed.readers[0]["metadata"]["name"]
    assert done.stderr.endswith(f"error: {message.replace('NAME', name)}\n{hint}")
    assert len(deleted(claimed)) == 1


def test_what_is_on_a_claim_comes_out_of_any_worker_that_still_runs(mlpack: Mlpack, claimed: Life) -> None:
    claimed.deploy()
    claimed.objects += [worker(0, state={"terminated": {"exitCode": 0}}), worker(1)]
    claimed.archive = ONE_FILE
    done = mlpack(*RESULTS)
    assert (done.code, done.stderr) == (0, f"1 file, 5 bytes, from {JOB}-worker-1:{OUTPUT} in here\n")
