"""A verb ends when its time is up, whatever it waits for; the programs that it has started end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import process
from packager.base.errors import TimedOutError
from packager.cli.asking import limited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A kubectl that never ends, and writes down its process id."""
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (
            ("deploy", "--no-verify"),
            "hello-mpi is not deployed after 100ms\nhint: deploy again to complete it",
        ),
        (("delete",), "hello-mpi may not be fully deleted after 100ms\nhint: run it again to continue waiting"),
    ],
)
def test_a_kubectl_that_hangs_is_ended_with_the_verb(
    mlpack: Mlpack, tmp_path: Path, hanging: Path, verb: tuple[str, ...], message: str
) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    begin = time.monotonic()
    done = mlpack(verb[0], "hello-mpi", *verb[1:], "--kubectl", hanging, "--timeout", "100ms")
    assert (done.code, done.stderr) == (8, f"error: {message}\n")
    assert time.monotonic() - begin < 60, "the program would take 600 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_verb_within_its_time_is_not_interrupted() -> None:
    late = TimedOutError("late")
    with limited(0.001, late):
        pass
    time.sleep(0.6)  # longer than the limit, and the time beyond it in which a verb may end by itself
    with limited(0, late):
        time.sleep(0.01)


def test_a_limit_that_strikes_where_its_error_is_ignored_strikes_again() -> None:
    def ignore_once() -> None:
        with suppress(TimedOutError):  # as Python does in a finalizer, and in what runs as a process forks
            time.sleep(60)
        time.sleep(60)

    begin = time.monotonic()
    with pytest.raises(TimedOutError), limited(0.01, TimedOutError("late")):
        ignore_once()
    assert time.monotonic() - begin < 30


def test_a_limit_does_not_interrupt_the_cleaning_up_after_it() -> None:
    cleaned = []

    def clean_up_slowly() -> None:
        try:
            time.sleep(60)
        finally:
            time.sleep(0.5)
            cleaned.append(True)

    with pytest.raises(TimedOutError), limited(0.01, TimedOutError("late")):
        clean_up_slowly()
    assert cleaned


def test_a_limit_that_strikes_while_a_program_is_started_leaves_none_running(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class SlowToStart(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            super().__init__(argv, **options)
            started.append(self)
            time.sleep(0.6)

    monkeypatch.setattr(subprocess, "Popen", SlowToStart)
    with pytest.raises(TimedOutError), limited(0.01, TimedOutError("late")):
        process.run(["sleep", "600"])
    assert [child.returncode for child in started] == [-signal.SIGKILL]
