"""Tests of the option elastic: where a package has it, its script, what `verify` refuses, and the verdicts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import TEMPLATES, render
from packager.builder.selection import select
from packager.kubernetes.objects import name
from packager.kubernetes.verdict import Phase
from packager.modelspec.load import load
from packager.verify.objects import check_kinds
from packager.workloads.jobset.structure import least_nodes, replaces_single_pods
from tests import demo, written
from tests.fake_cluster import item
from tests.workloads.jobset.test_life import failed, job, jobset, judged, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

SCRIPT = TEMPLATES["jobset"] / "quickstart/common/FRAMEWORK/k8s/mlops/base/torchrun.sh"
VARIABLES = ("PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_RDZV_ENDPOINT", "PET_RDZV_CONF", "PET_NODE_RANK")
TORCH = "kind: JobSet, rendezvous: torch, roles: {node: {replicas: 3}}"


def has_option(folder: Path, values: str) -> bool:
    """Whether the demo has the option, if its overlay on several nodes has these values."""
    loaded = load(demo.write(folder, demo.changed(f"{{kind: MPIJob}} => {{{values}}}")))
    tree = render(plan(loaded, loaded.spec.variants[0], Options(site=select(["all"]))))
    folders = {entry.path.split("/")[-2] for entry in tree.entries if entry.path.endswith("/kustomization.yaml")}
    scripts = {entry.path.rpartition("/")[2] for entry in tree.entries}
    assert ("elastic" in folders) is ("torchrun.sh" in scripts)
    return "elastic" in folders


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (TORCH, True),
        ("kind: JobSet, rendezvous: torch, roles: {node: {command: [torchrun, -m, model]}}", True),
        ("kind: JobSet, rendezvous: torch, roles: {node: {command: [python3]}}", False),
        ("kind: JobSet, rendezvous: jax, roles: {node: {replicas: 3}}", False),
        ("kind: JobSet, rendezvous: none, roles: {node: {command: [torchrun]}}, success: [node]", False),
        ("kind: Job", False),
    ],
)
def test_package_has_elastic_only_where_torchrun_starts_nodes(tmp_path: Path, values: str, *, expected: bool) -> None:
    assert has_option(tmp_path, values) is expected


ADDRESS = ("127.0.0.1", 0)


def server(address: tuple[str, int] = ADDRESS) -> socket.socket:
    """Return the store of node 0: something that listens."""
    return socket.create_server(address)


def arguments(folder: Path, rank: str, port: int, script: str) -> dict[str, Any]:
    """Return the arguments of a process that runs the script on a node, with a torchrun of ours."""
    torchrun = folder / "torchrun"
    torchrun.write_text(f"#!/bin/sh\n{script}\n")
    torchrun.chmod(0o755)
    environment = {
        "PATH": f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "ELASTIC_MIN": "2",
        "JOBSET_NAME": "a",
        "PET_NNODES": "4",
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": ADDRESS[0],
        "PET_MASTER_PORT": str(port),
    }
    patient = folder / SCRIPT.name
    patient.write_text(SCRIPT.read_text().replace("PATIENCE = 300", "PATIENCE = 10"))
    argv = ["/bin/sh", str(patient), "--no_python", "/a b/train.sh"]
    return {"args": argv, "env": environment, "cwd": folder, "text": True}


@pytest.mark.parametrize(("rank", "is_host"), [("0", "true"), ("10", "false")])
def test_script_gives_torchrun_the_range_of_nodes_and_one_endpoint(tmp_path: Path, rank: str, is_host: str) -> None:
    lines = [f'echo "${{{variable}-none}}"' for variable in VARIABLES]
    with server() as store:
        port = store.getsockname()[1]
        shown = arguments(tmp_path, rank, port, "\n".join((*lines, 'echo "$@"')))
        done = subprocess.run(**shown, capture_output=True, check=True)
    assert done.stdout.splitlines() == [
        "2:4",
        "c10d",
        "a",
        f"127.0.0.1:{port}",
        f"is_host={is_host},read_timeout=300",
        "none",
        "--no_python /a b/train.sh",
    ]


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Return a pipe: what reads it ends when something has been written to it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_node_starts_torchrun_again_after_node_0_has_left(tmp_path: Path, fifo: Path) -> None:
    script = "echo start >>starts; read -r code <fifo; exit $code"
    store = server()
    with subprocess.Popen(**arguments(tmp_path, "1", store.getsockname()[1], script), stderr=subprocess.PIPE) as node:
        with fifo.open("w") as stream:  # opens when torchrun reads
            address = store.getsockname()
            store.close()
            stream.write("1\n")
        assert node.stderr
        assert node.stderr.readline() == "torchrun.sh: node 0 has left: waiting for its new pod\n"
        with server(address):
            fifo.write_text("0\n")
            assert node.wait(30) == 0
    assert (tmp_path / "starts").read_text() == "start\nstart\n"


@pytest.mark.parametrize("code", [0, 42])
def test_node_ends_as_its_torchrun_while_node_0_answers(tmp_path: Path, code: int) -> None:
    with server() as store:
        done = subprocess.run(
            **arguments(tmp_path, "1", store.getsockname()[1], f"echo start; exit {code}"),
            check=False,
            capture_output=True,
        )
    assert (done.returncode, done.stdout, done.stderr) == (code, "start\n", "")


def test_node_that_is_drained_stops_torchrun_and_starts_it_no_more(tmp_path: Path, fifo: Path) -> None:
    script = 'trap "echo stopped; exit 3" TERM; sleep 60 & echo >fifo; wait'
    store = server()
    with subprocess.Popen(**arguments(tmp_path, "1", store.getsockname()[1], script), stdout=subprocess.PIPE) as node:
        fifo.read_text()
        store.close()
        node.terminate()
        assert node.stdout
        assert node.stdout.readline() == "stopped\n"
        assert node.wait(30) == 3


@pytest.mark.thorough
def test_node_that_is_drained_while_torchrun_starts_stops_it(tmp_path: Path) -> None:
    script = 'trap "echo stopped; exit 3" TERM; kill $PPID; sleep 9 >/dev/null 2>&1 & wait'
    with server() as store:
        shown = arguments(tmp_path, "1", store.getsockname()[1], script)
        for _ in range(20):
            done = subprocess.run(**shown, check=False, capture_output=True, timeout=30)
            assert (done.returncode, done.stdout) == (3, "stopped\n")


def test_node_fails_if_node_0_does_not_come(tmp_path: Path) -> None:
    with server() as store:
        port = store.getsockname()[1]
    done = subprocess.run(**arguments(tmp_path, "1", port, "echo start"), check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"torchrun.sh: node 0 does not answer at 127.0.0.1:{port} within 10 s\n"


def test_verify_checks_the_least_number_of_nodes(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path, demo.changed(f"{{kind: MPIJob}} => {{{TORCH}}}")))
    entries = {entry.path: entry.content for entry in render(plan(loaded, loaded.spec.variants[0], Options())).entries}
    manifest = yaml.safe_load(entries["quickstart/k8s/mlops/multi-node/jobset.yaml"])  # type: ignore[arg-type]
    container = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    variable = {"name": "ELASTIC_MIN"}
    container["env"].append(variable)

    def messages(value: object) -> list[str]:
        variable["value"] = value  # type: ignore[assignment]
        return [problem.message for problem in check_kinds(written.overlay(yaml.safe_dump(manifest)))]

    assert messages("1") == messages("3") == []
    for value in ("0", "4", "", "two", "1" * 5000, "٣", None, 2, ["1"]):
        [message] = messages(value)
        assert "ELASTIC_MIN: expected a whole number from 1 to 3, the number of pods, found " in message
        assert len(message) < 500


def test_elastic_is_refused_beside_gang(mlpack: Callable[..., Outcome]) -> None:
    values = ("--site", "ELASTIC_MIN=1", "--site", "GANG=volcano")
    done = mlpack("build", "llm-finetune", "--with", "gang", "--with", "elastic", *values)
    assert done.code == 2
    reason = "gang starts all pods or none, and elastic starts with ELASTIC_MIN of them"
    assert f"gang and elastic cannot be combined: {reason}" in done.stderr


@pytest.mark.parametrize("value", ["0", "10000"])
def test_build_refuses_invalid_least_number_of_nodes(mlpack: Callable[..., Outcome], value: str) -> None:
    done = mlpack("build", "llm-finetune", "--with", "elastic", "--site", f"ELASTIC_MIN={value}")
    assert done.code == 2
    assert f"expected a whole number from 1, found {value!r}" in done.stderr


def elastic(*descriptions: str) -> dict[str, Any]:
    """Return a JobSet of two nodes, one of which is enough."""
    made = jobset(*descriptions)
    variables = [{"name": "ELASTIC_MIN", "value": "1"}]
    template = {"spec": {"containers": [{"name": "node", "env": variables}]}}
    spec = {"backoffLimitPerIndex": 3, "parallelism": 2, "template": template}
    made["spec"]["replicatedJobs"] = [{"name": "node", "template": {"spec": spec}}]
    return made


def unscheduled(index: int) -> dict[str, Any]:
    """Return a pod for which no node has room."""
    waiting = pod(index, {"waiting": {}}, phase="Pending")
    message = "0/1 nodes are available: 1 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    waiting["status"] |= {"conditions": [condition], "containerStatuses": []}
    return waiting


def test_least_number_of_nodes_is_read_from_a_jobset() -> None:
    assert (replaces_single_pods(elastic()), least_nodes(elastic())) == (True, 1)
    assert (replaces_single_pods(jobset()), least_nodes(jobset())) == (False, None)
    assert least_nodes(item("JobSet", "a", spec={"replicatedJobs": "none"})) is None


def test_jobset_with_enough_nodes_runs_while_another_one_has_no_room() -> None:
    verdict = judged(elastic("StartupPolicyCompleted"), job(), pod(0), unscheduled(1))
    assert verdict.phase is Phase.RUNNING
    assert [finding.subject for finding in verdict.findings] == [f"pod/{name(unscheduled(1))}"]


def test_jobset_is_stuck_while_its_first_node_has_no_room() -> None:
    for workload in [elastic("StartupPolicyCompleted"), jobset("StartupPolicyCompleted")]:
        assert judged(workload, job(), unscheduled(0), pod(1)).phase is Phase.STUCK


def test_jobset_runs_while_a_failed_node_is_made_again() -> None:
    verdict = judged(elastic("StartupPolicyCompleted"), job(), pod(0), failed(1, 9, "no data"))
    assert verdict.phase is Phase.RUNNING


def test_success_of_an_elastic_jobset_is_that_of_node_0() -> None:
    assert judged(elastic("Completed:AllJobsCompleted")).summary == "node 0 has succeeded"
