"""Tests that pods are held until their results are copied: `mlpack deploy --results` and `mlpack run --results`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from packager.base.process import Finished
from tests.cluster.test_record import DEPLOY
from tests.conftest import Outcome
from tests.life import POD, Life
from tests.local_pod import write

Mlpack = Callable[..., Outcome]


SINGLE = ("--overlay", "single-node")


class HeldPod:
    """The Pod of hello-mpi, which waits for its results to be copied; `scripts` are those that were run in it."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.scripts: list[str] = []
        self.refusal = ""
        self.end: Callable[[], object] = life.end_pod
        life.moments += [self.start]
        life.logs = {POD: "hello\n"}
        life.first = self.answer

    def start(self) -> None:
        containers = [{"name": "main", "image": "a:1", "state": {"running": {}}, "restartCount": 0}]
        self.life.find("Pod", POD)["status"] = {"phase": "Running", "containerStatuses": containers}

    def answer(self, argv: Sequence[str]) -> Finished | None:
        if "exec" not in argv:
            return None
        if self.refusal:
            self.end()
            return Finished(1, "", self.refusal)
        self.scripts.append(argv[-3].partition(" ")[0])
        if self.scripts[-1] == ":":
            self.end()
            return Finished(0, "", "")
        return Finished(0, "0\n", "") if len(self.scripts) > 1 else Finished(1, "", "cannot open held: No such file")


@pytest.fixture
def held(life: Life, tmp_path: Path) -> HeldPod:
    life.output = write(tmp_path / "pod", {"model.bin": b"weights"})
    return HeldPod(life)


def output(folder: Path) -> Path:
    (made,) = (folder / "runs" / POD).iterdir()
    return made


@pytest.mark.parametrize("verb", ["deploy", "run"])
def test_results_are_copied_from_a_held_pod_before_its_end(
    mlpack: Mlpack, held: HeldPod, tmp_path: Path, verb: str
) -> None:
    which = SINGLE if verb == "deploy" else ("--task", "single-node")
    done = mlpack(verb, *DEPLOY[1:], *which)
    assert done.code == 0, done.stderr
    assert held.scripts == ["read", "read", ":"]
    made = output(tmp_path)
    assert (made / "output/model.bin").read_bytes() == b"weights"
    answer = json.loads((made / "verdict.json").read_text())
    assert (answer["phase"], [copy["files"] for copy in answer["results"]], answer["missing"]) == ("succeeded", [1], [])
    assert "mlpack/hold: '600'" in (made / "manifests.yaml").read_text().replace('"', "'")
    assert "results are deleted" not in done.stderr


def test_pod_is_let_go_when_its_results_cannot_be_copied(mlpack: Mlpack, held: HeldPod, tmp_path: Path) -> None:
    held.life.broke = (126, 'exec: "tar": executable file not found in $PATH')
    done = mlpack(*DEPLOY, *SINGLE)
    assert done.code == 7
    assert held.scripts == ["read", "read", "read", "read", ":"]
    assert "the image has no tar, which is needed for this" in done.stderr
    assert json.loads((output(tmp_path) / "verdict.json").read_text())["phase"] == "succeeded"


def test_running_pod_without_a_hold_is_recorded_as_it_is(mlpack: Mlpack, held: HeldPod) -> None:
    assert mlpack(*DEPLOY[:-2], *SINGLE, "--no-wait").code == 0
    held.life.moments += [lambda: None, held.life.end_pod]
    done = mlpack(*DEPLOY, *SINGLE)
    assert held.scripts == []
    assert f"pod/{POD} already exists and is up to date" in done.stderr


@pytest.mark.parametrize("verb", ["deploy", "run"])
def test_hold_needs_a_record(mlpack: Mlpack, verb: str) -> None:
    done = mlpack(verb, "hello-mpi", "--hold", "5m")
    assert (done.code, done.stderr) == (2, "error: --hold needs --results DIR\n")
