"""Tests of the short records of runs without `--results`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from packager.cluster import record
from tests.cluster.test_record import stamped
from tests.conftest import Outcome
from tests.life import JOB, Life

Mlpack = Callable[..., Outcome]


DEPLOY = ("deploy", "hello-mpi", "-n", "team", "--yes", "--no-verify")


@pytest.fixture
def runs(life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of records; in the cluster, the MPIJob runs and then ends."""
    monkeypatch.setenv("MLPACK_RUNS", str(tmp_path / "kept"))
    life.moments += [life.start, lambda: None, life.end]
    life.logs = {f"{JOB}-launcher-0": stamped("hello\n"), f"{JOB}-worker-0": "", f"{JOB}-worker-1": ""}
    return tmp_path / "kept"


def test_run_without_results_is_kept_and_listed_by_history(mlpack: Mlpack, runs: Path, tmp_path: Path) -> None:
    done = mlpack(*DEPLOY)
    assert done.code == 0, done.stderr
    assert "record" not in done.stderr
    (record,) = (runs / JOB).iterdir()
    assert (runs.stat().st_mode & 0o777) == 0o700
    answer = json.loads((record / "verdict.json").read_text())
    assert (answer["phase"], answer["missing"]) == ("succeeded", [])
    files = {path.relative_to(record).as_posix() for path in record.rglob("*") if path.is_file()}
    assert files == {*answer["files"], "verdict.json"}
    assert (record / f"logs/{JOB}-launcher-0/launcher.log").read_text() == "hello\n"
    assert {"manifests.yaml", "mlops.env"} < files
    listed = mlpack("history", "hello-mpi", "-n", "team")
    assert listed.stdout.splitlines()[-1].endswith(f"kept/{JOB}/{record.name}")
    assert not (tmp_path / "results").exists()


def test_only_the_end_of_a_log_is_kept(mlpack: Mlpack, life: Life, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LOG_BYTES", 100)
    life.logs[f"{JOB}-launcher-0"] = stamped("".join(f"line {number}\n" for number in range(900)))
    assert mlpack(*DEPLOY).code == 0
    (log,) = runs.glob("*/*/logs/*/launcher.log")
    assert len(log.read_bytes()) == 100
    assert log.read_text().endswith("line 899\n")


def test_old_records_are_removed_without_other_files(
    mlpack: Mlpack, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_RECORDS", 1)
    for day in (1, 2):
        old = runs / "old" / f"2020010{day}T000000Z"
        (old / "logs/a").mkdir(parents=True)
        for name in ("mlops.env", "logs/a/b.log", *(["mine.txt"] if day == 2 else [])):
            (old / name).write_text("x")
        (old / "verdict.json").write_text(json.dumps({"files": ["mlops.env", "logs/a/b.log"]}))
    other = runs / "results/20200103T000000Z/verdict.json"  # as of `deploy --results` into the same folder
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    assert mlpack(*DEPLOY).code == 0
    assert other.exists()
    other.unlink()
    assert len(list(runs.glob("*/*/verdict.json"))) == 1
    left = {path.relative_to(runs).as_posix() for path in (runs / "old").rglob("*") if path.is_file()}
    assert left == {"old/20200102T000000Z/mine.txt"}


def test_run_counts_though_it_cannot_be_recorded(mlpack: Mlpack, runs: Path) -> None:
    runs.write_text("a file in the way")
    done = mlpack(*DEPLOY)
    assert done.code == 0
    assert "note: the run is not recorded: " in done.stderr
