"""A few inputs of the fuzzer, and faults that it finds: `make fuzz` tries thousands."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tests.fuzz.demands import broken
from tests.fuzz.inputs import Input
from tests.fuzz.runner import run
from tests.fuzz.subjects import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from tests.fuzz.runner import Judge

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("subject", SUBJECTS)
def test_fuzz_subject_meets_demands_for_30_inputs(subject: str, tmp_path: Path) -> None:
    assert run(SUBJECTS[subject], range(30), "every run", tmp_path / "work") == {}


def test_demands_detect_faults_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, temporary = tmp_path / "input", tmp_path / "tmp"
    for path in (folder / "elsewhere", temporary):
        path.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with mock.patch("packager.verify.command.opened", side_effect=KeyError("planted")):
        assert "planted" in str(broken(Input(["verify", str(folder)], None), folder, temporary)[0])
    outside = Input(["init", "model", "-d", str(folder)], folder / "elsewhere")
    assert broken(outside, folder, temporary)[0] == "something was written outside of the destination"
    (temporary / "left").touch()
    assert broken(Input(["version"], None), folder, temporary)[0] == "temporary files were left: ['left']"


def odd(work: Path, bad: Callable[[Path], str | None]) -> Judge:
    """Return a judge that calls `bad` for each tenth input."""
    count = [0]

    def judge(random: Random) -> str | None:
        random.random()
        count[0] += 1
        return bad(work) if count[0] == 10 else None

    return judge


def crash(_work: Path) -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def compute(_work: Path) -> None:
    while True:
        pass


def write_elsewhere(work: Path) -> None:
    (work.parent / "elsewhere").write_text("x")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (crash, "the process ended with status -10"),
        (compute, "HangsError"),
        (write_elsewhere, "it wrote elsewhere: ['open WORK/elsewhere']"),
    ],
)
def test_runner_reports_bad_inputs_and_tries_the_rest(
    bad: Callable[[Path], str | None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.runner.SECONDS", 1)
    finds = run(lambda work: odd(work, bad), range(24), "a", tmp_path / "work", workers=2)
    # The tenth of a worker's twelve inputs is bad; the worker that replaces it tries the last two.
    assert sorted(finds) == [18, 19]
    for wrong in finds.values():
        assert message in re.sub(rf"{re.escape(str(tmp_path))}/work/[-\d]+", "WORK", wrong)
