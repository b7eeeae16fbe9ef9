"""Tests of the fuzzer: it detects planted faults; and a few of its inputs."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tests.fuzz.demands import broken
from tests.fuzz.inputs import Input, Seeds, _mutate_files, make
from tests.fuzz.runner import run
from tests.fuzz.subjects import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.runner import Judge

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return Seeds(tmp_path_factory.mktemp("seeds") / "work")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    folder, temporary = tmp_path / "input", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return folder, temporary


@pytest.mark.parametrize("subject", SUBJECTS)
def test_fuzz_subject_meets_demands_for_30_inputs(subject: str, tmp_path: Path) -> None:
    """The test tries 30 inputs of each subject; `make fuzz` tries 10,000, and CI 2,000."""
    outcome = run(SUBJECTS[subject], 30, "every run", tmp_path, workers=1)
    assert (outcome.tried, outcome.finds) == (30, {})


@pytest.mark.parametrize("number", range(30))
def test_generated_input_meets_demands(number: int, seeds: Seeds, places: tuple[Path, Path]) -> None:
    tried = make(Random(f"every run:{number}"), seeds, places[0])
    assert broken(tried, *places)[0] is None


def test_generated_input_depends_only_on_seed(seeds: Seeds, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name / "input"
        folder.mkdir(parents=True)
        argv = make(Random("a:1"), seeds, folder).argv
        content = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        made.append(([argument.replace(str(folder), "") for argument in argv], content))
    assert made[0] == made[1]


@pytest.mark.parametrize("content", [b"!!bool x", b"!!timestamp x", b"!!int x", b"a: 2001-99-99", b"{", b"[" * 5000])
@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.env"])
def test_mutation_accepts_any_content(name: str, content: bytes) -> None:
    for number in range(20):
        files = {name: (content, 0o644)}
        _mutate_files(Random(number), files)
        assert isinstance(files[name][0], bytes)


def test_demands_detect_traceback(places: tuple[Path, Path]) -> None:
    with mock.patch("packager.app.verify.opened", side_effect=KeyError("planted")):
        demand, _ = broken(Input(["verify", str(places[0])], None), *places)
    assert demand is not None
    assert "planted" in demand


def test_demands_detect_file_outside_of_destination(places: tuple[Path, Path]) -> None:
    tried = Input(["init", "model", "-d", str(places[0])], places[0] / "elsewhere")
    (places[0] / "elsewhere").mkdir()
    assert broken(tried, *places)[0] == "something was written outside of the destination"


def test_demands_detect_incomplete_package(places: tuple[Path, Path]) -> None:
    folder = places[0]
    (folder / "hello-mpi.tar.gz").write_bytes(b"half")
    demand, _ = broken(Input(["list"], folder), *places)
    assert demand is not None
    assert demand.startswith("hello-mpi.tar.gz was written, and cannot be opened")


def test_demands_detect_leftover_temporary_file(places: tuple[Path, Path]) -> None:
    (places[1] / "left").touch()
    assert broken(Input(["version"], None), *places)[0] == "temporary files were left: ['left']"


def odd(work: Path, bad: Callable[[int, Path], str | None]) -> Judge:
    """Return a judge that counts its inputs in a file, and calls `bad` for the tenth."""
    count = [0]

    def judge(random: Random) -> str | None:
        random.random()
        count[0] += 1
        (work / "last").write_text(str(count[0]))
        return bad(count[0], work) if count[0] == 10 else None

    return judge


def fail(_number: int, _work: Path) -> str:
    return "not as demanded"


def crash(_number: int, _work: Path) -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def raise_(_number: int, _work: Path) -> None:
    raise KeyError("planted")


def hang(_number: int, _work: Path) -> None:
    time.sleep(600)


def compute(_number: int, _work: Path) -> None:
    while True:
        pass


def hang_in_c(_number: int, _work: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(600)


def take_memory(_number: int, _work: Path) -> None:
    b"x" * (300 << 20)


def write_elsewhere(_number: int, work: Path) -> None:
    (work.parent / "elsewhere").write_text("x")
    (work.parent / "elsewhere").unlink()


def write_to_current_folder(_number: int, _work: Path) -> None:
    Path("here").touch()


def rename_out(_number: int, work: Path) -> None:
    (work / "last").rename(work.parent / "last")


def link_by_descriptor(_number: int, work: Path) -> None:
    place = os.open(work.parent, os.O_RDONLY)
    os.symlink("x", "link", dir_fd=place)
    os.close(place)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (fail, "not as demanded"),
        (crash, "the process ended with status -10, or did not end"),
        (raise_, "KeyError: 'planted'"),
        (hang, "it had not ended after 1 seconds"),
        (compute, "it had not ended after 1 seconds"),
        (hang_in_c, "the process ended with status -9, or did not end"),
        (take_memory, "MiB of memory"),
        (write_elsewhere, "it wrote elsewhere: ['open WORK/elsewhere', 'os.remove WORK/elsewhere']"),
        (write_to_current_folder, "it wrote elsewhere: ['here']"),
        (rename_out, "it wrote elsewhere: ['os.rename WORK/last']"),
        (link_by_descriptor, "it wrote elsewhere: ['os.symlink WORK/link']"),
    ],
)
def test_runner_reports_bad_inputs_and_tries_the_rest(
    bad: Callable[[int, Path], str | None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bad in (hang, compute, hang_in_c):
        monkeypatch.setattr("tests.fuzz.runner.SECONDS", 1)
        monkeypatch.setattr("tests.fuzz.runner._WAIT_SECONDS", 3)
        monkeypatch.setattr("tests.fuzz.runner._PATIENCE", 5 if bad is hang_in_c else 10)
    outcome = run(lambda work: odd(work, bad), 24, "a", tmp_path, workers=2)
    # The tenth of a worker's twelve inputs is bad; the worker that replaces it tries the last two.
    assert sorted(outcome.finds) == [18, 19]
    assert outcome.tried == 24
    for wrong in outcome.finds.values():
        assert message in re.sub(rf"{re.escape(str(tmp_path))}(/\d)?", "WORK", wrong)


def test_runner_fails_when_subject_cannot_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def subject(_work: Path) -> Judge:
        raise KeyError("planted")

    with pytest.raises(RuntimeError, match="1 of 1 workers could not go on"):
        run(subject, 3, "a", tmp_path, workers=1)
    assert "KeyError: 'planted'" in capfd.readouterr().err
