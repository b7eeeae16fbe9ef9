"""The numbers that people change are in mlops.env, and the manifests follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.kubectl.kustomize import kustomize
from tests import kinds
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

OVERLAYS = "quickstart/k8s/mlops"
SETTINGS = (
    *kinds.SET,
    "overlays.array.kind=Job",
    "overlays.array.completions=6",
    "overlays.array.parallelism=2",
    "overlays.array.deadline=600",
    "overlays.team.kind=Job",
    "overlays.team.completions=2",
    "overlays.team.parallelism=2",
    "overlays.nodes.kind=JobSet",
    "overlays.nodes.rendezvous=torch",
    "overlays.nodes.roles.node.replicas=2",
    "overlays.nodes.processes_per_node=2",
    "overlays.nodes.deadline=600",
)


@pytest.fixture
def package(mlpack: Run, tmp_path: Path) -> Path:
    done = mlpack("build", "hello-mpi", "--format", "dir", *(f"--set={setting}" for setting in SETTINGS))
    assert done.code == 0, done.stderr
    return tmp_path / "hello-mpi"


def workload(package: Path, overlay: str, kubectl: Path) -> dict[str, Any]:
    """Return the spec of an overlay's workload as kubectl renders it."""
    text = kustomize(package / OVERLAYS / overlay, program=str(kubectl)).manifests
    kinds_of_workloads = ("Pod", "Job", "JobSet", "MPIJob", "Deployment")
    spec: dict[str, Any] = next(item["spec"] for item in yaml.safe_load_all(text) if item["kind"] in kinds_of_workloads)
    return spec


def roles(package: Path, overlay: str, kubectl: Path) -> dict[str, tuple[int, int, dict[str, str]]]:
    """Return the parallelism, the completions and the variables of each role of a JobSet."""
    jobs = workload(package, overlay, kubectl)["replicatedJobs"]
    specs = {job["name"]: job["template"]["spec"] for job in jobs}
    return {
        name: (
            spec["parallelism"],
            spec["completions"],
            {entry["name"]: entry.get("value") for entry in spec["template"]["spec"]["containers"][0]["env"]},
        )
        for name, spec in specs.items()
    }


def test_number_of_workers_is_set_at_one_place_in_every_kind(mlpack: Run, package: Path, kubectl: Path) -> None:
    done = mlpack("configure", package, "--workers", "4")
    assert done.code == 0
    assert sorted(done.stdout.splitlines()) == sorted(
        f"{package}/{OVERLAYS}/{overlay}/mlops.env"
        for overlay in ("multi-node", "server", "servers", "array", "team", "nodes")
    )
    assert f"{OVERLAYS}/multi-node/mlops.env:8: WORKERS=2  ->  WORKERS=4" in done.stderr
    assert workload(package, "multi-node", kubectl)["mpiReplicaSpecs"]["Worker"]["replicas"] == 4
    assert workload(package, "server", kubectl)["replicas"] == 4
    array, team = (workload(package, overlay, kubectl) for overlay in ("array", "team"))
    assert (array["parallelism"], array["completions"]) == (4, 6)
    assert (team["parallelism"], team["completions"]) == (4, 4)
    parallelism, completions, variables = roles(package, "nodes", kubectl)["node"]
    assert (parallelism, completions, variables["PET_NNODES"]) == (4, 4, "4")
    servers = roles(package, "servers", kubectl)
    assert [servers[role][:2] for role in ("scheduler", "server", "worker")] == [(1, 1), (1, 1), (4, 4)]
    assert {servers[role][2]["DMLC_NUM_WORKER"] for role in servers} == {"4"}
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert (verified.code, verified.stdout) == (0, "")


def test_other_numbers_are_set_by_their_keys(mlpack: Run, package: Path, kubectl: Path) -> None:
    for overlay, *settings in (
        ("multi-node", "SLOTS_PER_WORKER=3", "PROCESSES=5"),
        ("servers", "SERVERS=3"),
        ("nodes", "PROCESSES_PER_NODE=auto", "DEADLINE=60"),
        ("array", "COMPLETIONS=8", "DEADLINE=60"),
    ):
        sets = [argument for setting in settings for argument in ("--set", setting)]
        assert mlpack("configure", package, "--overlay", overlay, *sets).code == 0
    job = workload(package, "multi-node", kubectl)
    launcher = job["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert (job["slotsPerWorker"], launcher["command"][3]) == (3, "5")
    servers = roles(package, "servers", kubectl)
    assert (servers["server"][0], servers["worker"][2]["DMLC_NUM_SERVER"]) == (3, "3")
    node = workload(package, "nodes", kubectl)["replicatedJobs"][0]["template"]["spec"]
    command = node["template"]["spec"]["containers"][0]["command"]
    assert (node["activeDeadlineSeconds"], command[:2]) == (60, ["torchrun", "--nproc_per_node=auto"])
    array = workload(package, "array", kubectl)
    assert (array["completions"], array["activeDeadlineSeconds"]) == (8, 60)
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


@pytest.mark.parametrize("value", ["04", "0x4", "4.0", "+4", "four", "", "1e1", "99999999999"])
def test_value_other_than_a_whole_number_is_refused_at_its_line(
    value: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    path = package / OVERLAYS / "multi-node/mlops.env"
    message = f"{path}:8:1: WORKERS: expected a whole number of at most 10 digits, found '{value}'"
    done = mlpack("configure", package, "--overlay", "multi-node", "--set", f"WORKERS={value}")
    assert done.code == 2
    assert message in done.stderr
    assert "WORKERS=2\n" in path.read_text(encoding="utf-8")
    replace(path, "WORKERS=2", f"WORKERS={value}")
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert verified.code == 5
    assert message in verified.stdout


@pytest.mark.parametrize(
    ("overlay", "old", "new", "message"),
    [
        ("multi-node", "WORKERS=2", "WORKERS=0", "mlops.env:8:1: MPIJob hello-mpi-multi-node: "),
        ("multi-node", "SLOTS_PER_WORKER=1", "SLOTS_PER_WORKER=0", "expected 1 to 2147483647, found 0"),
        ("multi-node", "PROCESSES=all", "PROCESSES=3", "3 processes, and 2 workers x 1 slots hold 2"),
        ("multi-node", "PROCESSES=all", "PROCESSES=every", "expected a number of processes or 'all', found 'every'"),
        ("servers", "WORKERS=2", "WORKERS=0", "found 0"),
        ("nodes", "PROCESSES_PER_NODE=2", "PROCESSES_PER_NODE=two", "a number of processes or 'auto', found 'two'"),
        ("array", "DEADLINE=600", "DEADLINE=0", "expected at least 1, found 0"),
        ("array", "COMPLETIONS=6", "COMPLETIONS=0", "expected 1 to 2147483647, found 0"),
    ],
)
def test_verify_checks_numbers_by_the_rules_of_the_kind(
    overlay: str, old: str, new: str, message: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    path = package / OVERLAYS / overlay / "mlops.env"
    replace(path, old, new)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    line = path.read_text(encoding="utf-8").splitlines().index(new) + 1
    assert any(
        problem.startswith(f"{path}:{line}:1: ") and message in problem for problem in done.stdout.splitlines()
    ), done.stdout


def test_workers_of_an_overlay_with_one_pod_are_refused(mlpack: Run, package: Path) -> None:
    done = mlpack("configure", package, "--overlay", "single-node", "--workers", "2")
    assert done.code == 2
    assert "--workers: mlops.env of single-node has no WORKERS, NODES, REPLICAS or PARALLELISM" in done.stderr


def test_autoscaler_takes_the_place_of_the_number_of_replicas(mlpack: Run, package: Path, kubectl: Path) -> None:
    assert mlpack("configure", package, "--overlay", "server", "--with", "autoscale", "--workers", "3").code == 0
    assert "replicas" not in workload(package, "server", kubectl)
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


def test_spec_may_not_set_a_number_of_the_package(mlpack: Run) -> None:
    done = mlpack("build", "hello-mpi", "--add", "environment.WORKERS=3")
    assert done.code == 3
    assert "WORKERS cannot be set for the overlay 'multi-node'" in done.stderr
    assert "mlops.env has it already" in done.stderr
