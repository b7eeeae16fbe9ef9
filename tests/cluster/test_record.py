"""Tests of the records of runs: `mlpack deploy --results`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Outcome
from tests.fake_cluster import item
from tests.life import JOB, POD, Life
from tests.local_pod import write

Mlpack = Callable[..., Outcome]


DEPLOY = ("deploy", "hello-mpi", "-n", "team", "--yes", "--no-verify", "--results", "runs")
MPIJOB = f"mpijob/{JOB}"
LOSS = '{"step": 1, "loss": 3}\n{"step": 2, "loss": NaN}\n{"step": 3, "loss": 1.5}\n'


def stamped(log: str) -> str:
    """Return a log as kubectl prints it with --timestamps, a line each millisecond."""
    lines = log.splitlines(keepends=True)
    return "".join(f"2026-11-21T00:00:00.{number:03}000000Z {line}" for number, line in enumerate(lines))


@pytest.fixture
def run(life: Life, tmp_path: Path) -> Life:
    """A cluster in which the MPIJob runs and then ends, and its workers with their results still run."""
    life.moments += [life.start, lambda: None, life.end]
    life.logs = {f"{JOB}-launcher-0": stamped(f"starting\n{LOSS}"), f"{JOB}-worker-0": "", f"{JOB}-worker-1": ""}
    life.output = write(tmp_path / "pod", {"model.bin": b"weights"})
    return life


def record(folder: Path) -> Path:
    (made,) = (folder / "runs" / JOB).iterdir()
    return made


def verdict(folder: Path) -> dict[str, Any]:
    return dict(json.loads((record(folder) / "verdict.json").read_text()))


@pytest.mark.usefixtures("run")
def test_a_record_contains_logs_manifests_values_results_and_verdict(mlpack: Mlpack, tmp_path: Path) -> None:
    done = mlpack(*DEPLOY)
    assert done.code == 0, done.stderr
    made = record(tmp_path)
    files = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert files == {
        f"logs/{JOB}-launcher-0/launcher.log",
        f"logs/{JOB}-worker-0/worker.log",
        f"logs/{JOB}-worker-1/worker.log",
        "manifests.yaml",
        "mlops.env",
        "output/model.bin",
        "verdict.json",
    }
    assert (made / f"logs/{JOB}-launcher-0/launcher.log").read_text() == f"starting\n{LOSS}"
    assert (made / "mlops.env").read_bytes() == (
        tmp_path / "hello-mpi/quickstart/k8s/mlops/multi-node/mlops.env"
    ).read_bytes()
    kinds = [document["kind"] for document in yaml.safe_load_all((made / "manifests.yaml").read_text())]
    assert "MPIJob" in kinds
    answer = verdict(tmp_path)
    assert (answer["package"], answer["workload"], answer["phase"]) == ("hello-mpi", MPIJOB, "succeeded")
    assert [copy["files"] for copy in answer["results"]] == [1]
    assert answer["missing"] == []
    assert f"recorded in runs/{JOB}/{made.name}: 3 logs" in done.stderr


@pytest.mark.usefixtures("run")
def test_numbers_of_the_log_are_a_table(mlpack: Mlpack) -> None:
    done = mlpack(*DEPLOY)
    table = [line.split() for line in done.stderr.splitlines() if line.startswith(("NAME", "loss"))]
    assert table == [
        ["NAME", "POD", "STEP", "LAST", "LOWEST", "HIGHEST"],
        ["loss", f"{JOB}-launcher-0", "3", "1.5", "1.5", "3"],
    ]


def test_missing_results_are_reported_after_the_end(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    life.moments += [lambda: None, life.end_pod]
    life.logs = {POD: "hello\n"}
    done = mlpack(*DEPLOY, "--overlay", "single-node", "--hold", "0")
    assert "results are deleted when their pod ends" in done.stderr
    assert done.code == 7
    assert "error: pod/hello-mpi-single-node has ended, and its results were deleted then" in done.stderr
    (made,) = (tmp_path / "runs" / POD).iterdir()
    answer = json.loads((made / "verdict.json").read_text())
    assert (answer["phase"], answer["results"], len(answer["missing"])) == ("succeeded", [], 1)


def test_a_record_contains_no_values_of_secrets(mlpack: Mlpack, run: Life, tmp_path: Path) -> None:
    run.overlays["multi-node"].append({"apiVersion": "v1", **item("Secret", "token"), "data": {"key": "aHVudGVyMg=="}})
    assert mlpack(*DEPLOY).code == 0
    text = (record(tmp_path) / "manifests.yaml").read_text()
    assert "aHVudGVyMg" not in text
    assert "(not recorded)" in text


def test_names_that_kubernetes_does_not_allow_make_no_files(mlpack: Mlpack, run: Life, tmp_path: Path) -> None:
    def start() -> None:
        run.start()
        for pod in run.objects:
            for status in pod.get("status", {}).get("containerStatuses", ()):
                status["name"] = "../../../../evil"

    run.moments[0] = start
    mlpack(*DEPLOY)
    assert not list((record(tmp_path) / "logs").rglob("*"))
    assert not list(tmp_path.rglob("evil*"))
