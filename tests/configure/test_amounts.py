"""The numbers that people change are in mlops.env, and the manifests follow them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec import catalog
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import tree
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
    "overlays.nodes.kind=JobSet",
    "overlays.nodes.rendezvous=torch",
    "overlays.nodes.roles.node.replicas=2",
    "overlays.nodes.processes_per_node=2",
    "overlays.nodes.deadline=600",
    "overlays.nodes.roles.node.resources.limits.memory=1Gi",
    "overlays.nodes.roles.node.resources.requests.memory=1024Mi",
)


TEAM = "  team: {kind: Job, completions: 2, parallelism: 2, resources: {limits: {nvidia.com/gpu: 2}}}\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = shutil.copytree(catalog.bundled() / "hello-mpi", tmp_path_factory.mktemp("spec") / "hello-mpi")
    replace(spec / "spec.yaml", "\noverlays:\n", f"\noverlays:\n{TEAM}")
    loaded = load(spec / "spec.yaml", [parse_setting(setting) for setting in SETTINGS])
    package = tmp_path_factory.mktemp("package")
    tree.write(render(plan(loaded, loaded.spec.variants[0], Options())), package)
    return package


@pytest.fixture
def package(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "hello-mpi")


def workload(package: Path, overlay: str, kubectl: Path) -> dict[str, Any]:
    """Return the spec of an overlay's workload as kubectl renders it."""
    text = kustomize(package / OVERLAYS / overlay, program=str(kubectl)).manifests
    kinds_of_workloads = ("Pod", "Job", "JobSet", "MPIJob", "Deployment", "LeaderWorkerSet")
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
        for overlay in ("multi-node", "server", "servers", "array", "team", "nodes", "groups")
    )
    assert f"{OVERLAYS}/multi-node/mlops.env:11: WORKERS=2  ->  WORKERS=4" in done.stderr
    assert workload(package, "multi-node", kubectl)["mpiReplicaSpecs"]["Worker"]["replicas"] == 4
    assert workload(package, "server", kubectl)["replicas"] == 4
    assert workload(package, "groups", kubectl)["replicas"] == 4
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


@pytest.mark.thorough
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
    assert node["activeDeadlineSeconds"] == 60
    assert roles(package, "nodes", kubectl)["node"][2]["PET_NPROC_PER_NODE"] == "auto"
    array = workload(package, "array", kubectl)
    assert (array["completions"], array["activeDeadlineSeconds"]) == (8, 60)
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


@pytest.mark.parametrize("value", ["04", ""])
def test_value_other_than_a_whole_number_is_refused_at_its_line(
    value: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    path = package / OVERLAYS / "multi-node/mlops.env"
    message = f"{path}:11:1: WORKERS: expected a whole number of at most 10 digits, found '{value}'"
    done = mlpack("configure", package, "--overlay", "multi-node", "--set", f"WORKERS={value}")
    assert done.code == 2
    assert message in done.stderr
    assert "WORKERS=2\n" in path.read_text(encoding="utf-8")
    replace(path, "WORKERS=2", f"WORKERS={value}")
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert verified.code == 5
    assert message in verified.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("overlay", "old", "new", "message"),
    [
        ("multi-node", "WORKERS=2", "WORKERS=0", "mlops.env:11:1: MPIJob hello-mpi-multi-node: "),
        ("multi-node", "PROCESSES=all", "PROCESSES=3", "3 processes, and 2 workers x 1 slots hold 2"),
        ("multi-node", "PROCESSES=all", "PROCESSES=every", "expected a number of processes or 'all', found 'every'"),
        ("nodes", "PROCESSES_PER_NODE=2", "PROCESSES_PER_NODE=two", "'auto' or 'per-gpu', found 'two'"),
        ("multi-node", "SLOTS_PER_WORKER=per-gpu", "SLOTS_PER_WORKER=gpus", "10 digits or 'per-gpu', found 'gpus'"),
        ("array", "DEADLINE=600", "DEADLINE=0", "expected at least 1, found 0"),
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
    assert "hint: " not in done.stderr


@pytest.mark.thorough
def test_autoscaler_takes_the_place_of_the_number_of_replicas(mlpack: Run, package: Path, kubectl: Path) -> None:
    assert mlpack("configure", package, "--overlay", "server", "--with", "autoscale", "--workers", "3").code == 0
    assert "replicas" not in workload(package, "server", kubectl)
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


def test_spec_may_not_set_a_number_of_the_package(mlpack: Run) -> None:
    done = mlpack("build", "hello-mpi", "--add", "environment.WORKERS=3")
    assert done.code == 3
    assert "WORKERS cannot be set for the overlay 'multi-node'" in done.stderr
    assert "mlops.env has it already" in done.stderr


def resources(package: Path, overlay: str, kubectl: Path) -> dict[str, dict[str, Any]]:
    """Return the resources of the containers of an overlay's workload that run something of the model, by name."""
    entries: dict[str, dict[str, Any]] = {}

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            if "image" in value and value["name"] not in ("identity", "launcher"):
                entries[value["name"]] = value["resources"]
            for inside in value.values():
                collect(inside)
        elif isinstance(value, list):
            for inside in value:
                collect(inside)

    collect(workload(package, overlay, kubectl))
    return entries


def test_memory_and_cpu_are_set_at_one_place_in_every_kind(mlpack: Run, package: Path, kubectl: Path) -> None:
    done = mlpack("configure", package, "--memory", "64Gi", "--cpu", "8")
    assert done.code == 0
    for overlay in ("single-node", "multi-node", "server", "servers", "array", "team"):
        for container in resources(package, overlay, kubectl).values():
            requests, limits = container.get("requests", {}), container["limits"]
            assert {requests.get("memory", "64Gi"), limits.get("memory", "64Gi")} == {"64Gi"}
            assert requests.get("cpu", "8") == "8"
    assert resources(package, "single-node", kubectl)["main"] == {
        "requests": {"cpu": "8", "memory": "64Gi"},
        "limits": {"memory": "64Gi"},
    }
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert (verified.code, verified.stdout) == (0, "")


@pytest.mark.thorough
def test_number_of_gpus_is_that_of_the_spec_unless_the_option_is_on(mlpack: Run, package: Path, kubectl: Path) -> None:
    gpu = "nvidia.com/gpu"
    assert mlpack("configure", package, "--gpus", "8").code == 0
    assert resources(package, "team", kubectl)["main"]["limits"][gpu] == "8"
    assert gpu not in resources(package, "array", kubectl)["main"]["limits"]
    assert mlpack("configure", package, "--with", "gpu", "--gpus", "4").code == 0
    assert {resources(package, overlay, kubectl)["main"]["limits"][gpu] for overlay in ("team", "array")} == {"4"}
    assert "\nGPUS=8\n" in (package / OVERLAYS / "team/mlops.env").read_text(encoding="utf-8")
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


@pytest.mark.thorough
def test_gpus_of_an_overlay_without_any_are_those_of_the_option(mlpack: Run, package: Path, kubectl: Path) -> None:
    done = mlpack("configure", package, "--overlay", "single-node", "--gpus", "8")
    assert done.code == 0
    assert "GPU_COUNT=8" in done.stderr
    assert resources(package, "single-node", kubectl)["main"]["limits"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in resources(package, "array", kubectl)["main"]["limits"]
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


def processes(package: Path, kubectl: Path) -> tuple[Any, Any]:
    """Return the rendered slots of each worker of the MPIJob, and torchrun's processes of the JobSet."""
    variables = roles(package, "nodes", kubectl)["node"][2]
    return workload(package, "multi-node", kubectl)["slotsPerWorker"], variables["PET_NPROC_PER_NODE"]


GPU = "resources.limits.nvidia\\.com/gpu=2"
PER_GPU = (
    "overlays.nodes.processes_per_node=per-gpu",
    f"overlays.nodes.roles.node.{GPU}",
    f"overlays.multi-node.{GPU}",
)
"""Settings by which a number of GPUs is in mlops.env."""


@pytest.fixture
def per_gpu(mlpack: Run, tmp_path: Path) -> Path:
    """A package in which the numbers of processes follow GPUs that the spec names."""
    done = mlpack("build", "hello-mpi", "--format", "dir", *(f"--set={setting}" for setting in (*SETTINGS, *PER_GPU)))
    assert done.code == 0, done.stderr
    return tmp_path / "hello-mpi"


@pytest.mark.thorough
def test_processes_follow_the_option_gpu_in_place_of_the_spec(mlpack: Run, per_gpu: Path, kubectl: Path) -> None:
    assert mlpack("configure", per_gpu, "--with", "gpu", "--site", "GPU_COUNT=6").code == 0
    assert processes(per_gpu, kubectl) == (6, "6")
    replace(next(per_gpu.glob("quickstart/common/*/k8s/mlops/site/site.env")), "\nGPU_COUNT=6\n", "\nGPU_COUNT=3\n")
    assert processes(per_gpu, kubectl) == (3, "3")
    assert mlpack("verify", per_gpu, "--kubectl", kubectl).code == 0
    assert mlpack("configure", per_gpu, "--without", "gpu").code == 0
    assert processes(per_gpu, kubectl) == (2, "2")


def test_role_with_resources_of_its_own_keeps_them(mlpack: Run, package: Path) -> None:
    done = mlpack("configure", package, "--overlay", "nodes", "--memory", "2Gi")
    assert done.code == 2
    assert "--memory: mlops.env of nodes has no MEMORY or MEMORY_LIMIT" in done.stderr
    assert "--set changes NODE_MEMORY" in done.stderr
    done = mlpack("configure", package, "--overlay", "nodes", "--cpu", "2")
    assert "hint: write it into the overlay's manifest with an editor, or name it in the spec" in done.stderr


@pytest.mark.parametrize(
    ("overlay", "key", "value", "message"),
    [
        ("single-node", "MEMORY", "64Gb", "expected a quantity such as 64Gi, found '64Gb'"),
        ("single-node", "CPU", "-1", "-1 is negative"),
        ("team", "GPUS", "0.5", "expected a whole number of nvidia.com/gpu, found 0.5"),
    ],
)
def test_value_other_than_a_quantity_is_refused_at_its_line(
    overlay: str, key: str, value: str, message: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    path = package / OVERLAYS / overlay / "mlops.env"
    before = path.read_text(encoding="utf-8")
    old = next(line for line in before.splitlines() if line.startswith(f"{key}="))
    place = f"{path}:{before.splitlines().index(old) + 1}:1: {key}: {message}"
    done = mlpack("configure", package, "--overlay", overlay, "--set", f"{key}={value}")
    assert done.code == 2
    assert place in done.stderr
    assert path.read_text(encoding="utf-8") == before
    replace(path, old, f"{key}={value}")
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert verified.code == 5
    assert place in verified.stdout


def test_verify_refuses_a_request_above_its_limit(mlpack: Run, package: Path, kubectl: Path) -> None:
    assert mlpack("configure", package, "--overlay", "single-node", "--set", "MEMORY=64Gi").code == 0
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert "single-node/mlops.env:11:1: " in done.stdout
    assert "requests 64Gi of memory, above its limit of 128Mi" in done.stdout
