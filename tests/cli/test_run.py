"""Tests of `mlpack run`: tasks in sequence, resuming, timeouts, models, and the claims that it creates."""

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from packager.base.process import Finished
from tests import demo
from tests.conftest import Mlpack
from tests.fake_cluster import item, manifest_given
from tests.life import JOB, POD, Life

RUN = ("run", "hello-mpi", "--task", "single-node,multi-node", "-n", "team")
AGAIN = "the same command with --resume skips what has succeeded"
MPIJOB, THE_POD = f"mpijob/{JOB}", f"pod/{POD}"
AT_POD = "hello-mpi -n team --overlay single-node"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def messages_of(stderr: str) -> list[str]:
    """Return the lines of stderr without times and without the notes about results."""
    lines = [re.sub(r"^\d\d:\d\d  ", "", line) for line in stderr.splitlines()]
    assert sum(line.startswith("note: results are deleted") for line in lines) <= 1
    return [line for line in lines if not line.startswith("note: results are deleted")]


def test_run_follows_each_task_to_its_end(mlpack: Mlpack, life: Life) -> None:
    life.moments = [life.end_pod, life.start, life.end]
    done = mlpack(*RUN)
    assert (done.code, done.stdout) == (0, "")
    assert messages_of(done.stderr) == [
        f"single-node (1 of 2): {THE_POD}",
        f"{THE_POD} is deployed in the namespace team",
        f"{THE_POD} has succeeded",
        f"  its log: mlpack logs {AT_POD}",
        f"multi-node (2 of 2): {MPIJOB}",
        f"{MPIJOB} is deployed in the namespace team",
        "running: pods: 3 running",
        f"{MPIJOB} has succeeded",
        "  its log: mlpack logs hello-mpi -n team",
    ]


def test_run_exits_with_7_and_names_tasks_not_run(mlpack: Mlpack, life: Life) -> None:
    life.moments = [lambda: life.end_pod("Failed")]
    done = mlpack(*RUN, "-o", "json")
    assert done.code == 7
    first, second, last = map(json.loads, done.stdout.splitlines())
    assert (first["task"], first["phase"], first["findings"][0]["reason"]) == ("single-node", "failed", "Error")
    assert first["findings"][0]["log"] == ["epoch 1", "no such file: train.csv"]
    assert (second["task"], second["phase"], second["started"]) == ("multi-node", "not run", None)
    message = f"{THE_POD} has failed: the pod has failed; not run: multi-node"
    assert last["error"]["message"] == message
    assert "  | no such file: train.csv\n" in done.stderr
    assert done.stderr.endswith(f"error: {message}\nhint: the whole log: mlpack logs {AT_POD}; {AGAIN}\n")
    assert not any(MPIJOB in call for call in life.calls)


def test_run_resume_skips_succeeded_task_and_reruns_failed_task(mlpack: Mlpack, life: Life) -> None:
    life.moments = [life.end_pod, life.start, lambda: life.end("Failed", message="no")]
    assert mlpack(*RUN).code == 7
    life.first = lambda argv: life.objects.remove(life.find("MPIJob", JOB)) if argv[1] == "delete" else None
    life.moments = [*[lambda: None] * 12, life.start, life.end]
    done = mlpack(*RUN, "--resume")
    assert done.code == 0, done.stderr
    lines = messages_of(done.stderr)
    assert lines[0] == f"single-node is skipped: {THE_POD} has succeeded already with this build"
    assert f"waiting until the earlier {MPIJOB} is deleted" in lines
    assert f"{MPIJOB} has succeeded" in lines


def test_run_reports_all_existing_jobs_before_first_task(mlpack: Mlpack, life: Life) -> None:
    life.moments = [life.end_pod, life.start, life.end]
    assert mlpack(*RUN).code == 0
    calls = len(life.calls)
    done = mlpack(*RUN)
    by = life.find("Pod", POD)["metadata"]["annotations"]["mlpack/deployed-by"]
    ran = "has already run, and a finished job does not run again"
    assert (done.code, messages_of(done.stderr)) == (
        9,
        [
            f"error: {THE_POD}, deployed by {by}, {ran}; {MPIJOB}, deployed by {by}, {ran}; nothing was done",
            "hint: --replace deletes them and runs again; --resume skips what has succeeded with this build",
        ],
    )
    life.find("Pod", POD)["metadata"]["annotations"]["mlpack/rendered"] = "sha256:0"
    done = mlpack(*RUN, "--resume")
    assert messages_of(done.stderr) == [
        f"{THE_POD} exists, but is not of this build (deployed by {by}), so single-node is not skipped",
        f"error: {THE_POD}, deployed by {by}, {ran}; nothing was done",
        "hint: --replace deletes it and runs again",
    ]
    assert not any(call.startswith(("apply", "delete")) for call in life.calls[calls:])


def test_run_dry_run_applies_nothing(mlpack: Mlpack, life: Life) -> None:
    assert mlpack(*RUN, "--dry-run", "client").code == 0
    assert [call.split()[-1] for call in life.calls if call.startswith("apply")] == ["--dry-run=client"] * 2
    assert life.objects == []


def test_run_interrupted_leaves_task_running_and_names_resume_command(mlpack: Mlpack, life: Life) -> None:
    life.moments = [lambda: signal.raise_signal(signal.SIGINT)]
    done = mlpack(*RUN)
    assert done.code == 130
    assert done.stderr.endswith(
        f"\ndetached; {THE_POD} continues in the cluster\n"
        "  not run:    multi-node\n"
        f"  go on:      {AGAIN}\n"
        f"  look at it: mlpack status {AT_POD}\n"
        f"  delete it:  mlpack delete {AT_POD}\n"
        "mlpack: stopped by SIGINT\n"
    )


def test_run_timeout_covers_all_tasks(mlpack: Mlpack, life: Life) -> None:
    life.wait = lambda _seconds: life.wait_out(60)
    done = mlpack(*RUN, "--timeout", "2m", "-o", "json")
    assert done.code == 8
    assert "is still " in done.stderr
    assert f"; not run: multi-node\nhint: it continues in the cluster; follow it with `mlpack status {AT_POD}`" in (
        done.stderr
    )
    assert done.stderr.endswith(f"; {AGAIN}\n")
    assert json.loads(done.stdout)["error"]["exit_code"] == 8


BUILT = "hello-mpi is a package, which is built already\nhint: mlpack configure hello-mpi --set … changes it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "single-node,,multi-node"), "--task single-node,,multi-node: expected names with ',' between them"),
        (("--follow", "-o", "json"), "--follow and --output cannot be combined"),
        (("--set", "a=b"), f"--set: {BUILT}"),
        (("--claim-size", "many"), "--claim-size many: expected a Kubernetes quantity such as 10Gi"),
        (("--claim-class", "fast"), "--claim-class needs --claim-size"),
    ],
)
def test_run_refuses_invalid_arguments(mlpack: Mlpack, life: Life, arguments: tuple[str, ...], message: str) -> None:
    done = mlpack("run", "hello-mpi", *arguments)
    assert (done.code, done.stderr) == (2, f"error: {message}\n")
    assert life.calls == []


def test_run_builds_and_runs_model(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    demo.write(tmp_path / "demo", demo.changed("sequence: [single-node]"))
    life.overlays = {"single-node": life.overlays["single-node"]}
    life.moments = [life.end_pod]
    done = mlpack("run", "./demo", "-n", "team", "--no-verify", "--set", "title=Other")
    assert done.code == 0, done.stderr
    lost = "note: results are deleted when their pod ends: OUTPUT_DIR is on emptyDir"
    assert done.stderr.startswith(f"{lost}; --with pvc, nfs or host-path keeps them\n")
    (archive,) = (tmp_path / "cache/mlpack/runs").glob("*/demo-fp32-training.tar.gz")
    assert f"  its log: mlpack logs {archive} -n team --overlay single-node\n" in done.stderr


def test_run_reports_missing_claims_or_creates_them_with_claim_size(mlpack: Mlpack, life: Life) -> None:
    (pod,) = (item for item in life.overlays["single-node"] if item["kind"] == "Pod")
    pod["spec"]["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    run = ("run", "hello-mpi", "--task", "single-node", "-n", "team", "--no-verify")
    life.moments = [life.end_pod]
    done = mlpack(*run)
    assert (done.code, "note: claim data not found; --claim-size 10Gi creates it\n" in done.stderr) == (0, True)
    claim = {}

    def create(argv: Sequence[str]) -> Finished | None:
        if argv[2] != "create":
            return None
        claim.update(manifest_given(argv))
        return Finished(0, "persistentvolumeclaim/data\n", "")

    life.first = create
    life.objects = []
    life.moments = [life.end_pod]
    done = mlpack(*run, "--claim-size", "2Gi", "--claim-class", "fast")
    assert (done.code, "claim data is created, of 2Gi; mlpack does not delete it\n" in done.stderr) == (0, True)
    assert (claim["kind"], claim["metadata"]) == ("PersistentVolumeClaim", {"name": "data"})
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "fast",
    }
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    life.objects = [item("StorageClass", "standard", metadata={"name": "standard", "annotations": default})]
    life.moments = [life.end_pod]
    assert mlpack(*run, "--claim-size", "2Gi", "--claim-access", "ReadWriteMany").code == 0
    assert claim["spec"] == {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "2Gi"}}}


@pytest.fixture
def shared(mlpack: Mlpack, life: Life, tmp_path: Path) -> Path:
    """A package whose overlay `workspace` creates the claim that its overlay `single-node` mounts."""
    job = "kind: Job, claims: [{claim: data, path: /data}]"
    demo.write(tmp_path / "demo", demo.changed(f"kind: Pod => {job}", "workspace: data"))
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    (pod,) = (item for item in life.overlays["single-node"] if item["kind"] == "Pod")
    pod["spec"]["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    metadata = {"name": "data"}
    life.overlays["workspace"] = [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
    ]
    return tmp_path / "demo-fp32-training"


def test_run_creates_workspace_claim(mlpack: Mlpack, life: Life, shared: Path) -> None:
    created_objects = []

    def create(argv: Sequence[str]) -> Finished | None:
        if argv[2] != "create":
            return None
        assert "--save-config" in argv  # so that `kubectl apply` may change it later
        created_objects.append(manifest_given(argv))
        return Finished(0, "persistentvolumeclaim/data\n", "")

    life.first = create
    life.moments = [life.end_pod]
    done = mlpack("run", shared, "--task", "single-node", "-n", "team", "--no-verify")
    assert done.code == 0, done.stderr
    assert "claim data is created, as the package's overlay workspace says; mlpack does not delete it\n" in done.stderr
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in created_objects] == [("PersistentVolumeClaim", "data")]


def test_run_refuses_workspace_overlay_with_other_kinds(mlpack: Mlpack, life: Life, shared: Path) -> None:
    life.overlays["workspace"].append(item("Secret", "found"))
    life.first = lambda argv: pytest.fail(str(argv)) if argv[2] == "create" else None
    done = mlpack("run", shared, "--task", "single-node", "-n", "team", "--no-verify")
    assert (done.code, life.objects) == (5, [])
    assert "Secret found: kind: this overlay creates claims, and nothing else" in done.stderr
    assert (
        f"error: the overlay workspace of {shared} did not pass verification; the claim was not created" in done.stderr
    )
