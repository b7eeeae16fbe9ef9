"""Tests of time limits and signals: a verb ends at its timeout, together with the programs that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import process
from packager.base.errors import HungError, TimedOutError
from packager.cli import asking
from packager.cli.asking import limited
from packager.cli.host import Host
from tests.cli.test_opening import VERBS
from tests.life import Life

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.conftest import Mlpack


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A kubectl that does not end, and writes its process id to the file `pid`."""
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    return program


def test_timeout_ends_verb_and_hanging_kubectl(
    mlpack: Mlpack, tmp_path: Path, hanging: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert package.name == "hello-mpi"
    # On a busy machine the time may be up before the program runs: let the limit strike when it does.
    pid, is_handled = tmp_path / "pid", asking._is_handled  # noqa: SLF001 - asked at each strike
    monkeypatch.setattr(asking, "_is_handled", lambda error: not is_written(pid) or is_handled(error))
    begin = time.monotonic()
    done = mlpack("deploy", "hello-mpi", "--no-verify", "--kubectl", hanging, "--timeout", "100ms")
    message = "error: hello-mpi is not deployed after 100ms\nhint: deploy again to complete it\n"
    assert (done.code, done.stderr) == (8, message)
    assert time.monotonic() - begin < 300, "the program would take 600 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def is_written(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


def test_limit_restores_timer_and_signal_handler_when_time_suffices() -> None:
    late = TimedOutError("late")
    earlier = signal.getsignal(signal.SIGALRM)
    with limited(600, late):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 601
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is earlier
    with limited(0, late):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        time.sleep(0.01)


def test_program_that_hangs_for_the_rest_of_the_time_is_a_timeout() -> None:
    def hang(seconds: float) -> None:
        time.sleep(seconds)
        raise HungError("kubectl did not finish")

    with pytest.raises(TimedOutError, match="late"), limited(0.3, TimedOutError("late")):
        hang(0.1)
    with pytest.raises(HungError), limited(600, TimedOutError("late")):
        hang(0)


def test_limit_does_not_interrupt_cleanup() -> None:
    cleaned = []

    def clean_up_slowly() -> None:
        try:
            time.sleep(600)
        finally:
            time.sleep(0.5)
            cleaned.append(True)

    with pytest.raises(TimedOutError), limited(0.01, TimedOutError("late")):
        clean_up_slowly()
    assert cleaned


def test_limit_kills_program_that_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class SlowToStart(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            super().__init__(argv, **options)
            started.append(self)
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.05)  # the time is up now
            time.sleep(0.6)

    monkeypatch.setattr(subprocess, "Popen", SlowToStart)
    with pytest.raises(TimedOutError), limited(600, TimedOutError("late")):
        process.run(["sleep", "600"])
    assert [child.returncode for child in started] == [-signal.SIGKILL]


def test_signal_during_start_of_program_ends_program_and_verb(
    mlpack: Mlpack, hanging: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert package.name == "hello-mpi"
    number = signal.SIGTERM
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            super().__init__(argv, **options)
            signal.raise_signal(number)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    done = mlpack("status", "hello-mpi", "--kubectl", hanging)
    assert (done.code, done.stderr) == (128 + number, f"mlpack: stopped by {number.name}\n")
    assert [child.returncode for child in started] == [-signal.SIGKILL]


MOST_CALLS = 12
"""The most calls of kubectl at which a command gets a signal."""

COMMANDS = ("deploy", "doctor", "results", "run", "workspace pull")
"""Commands of which each calls kubectl in another way."""


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Signalled(Life):
    """A cluster during one of whose requests the command gets a signal."""

    def at(self, number: int, call: int) -> Signalled:
        numbers = count()

        def first(_argv: Sequence[str]) -> None:
            if next(numbers) == call:
                self.is_sent = True
                signal.raise_signal(number)

        self.is_sent = False
        self.first = first
        return self


@pytest.mark.parametrize(
    "command", [COMMANDS[0], *(pytest.param(name, marks=pytest.mark.thorough) for name in COMMANDS[1:])]
)
def test_command_ends_at_a_signal_during_any_call_of_kubectl(
    command: str, life: Life, mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    package = _files(tmp_path / "hello-mpi")
    sent = 0
    for call in range(MOST_CALLS):
        number = (signal.SIGINT, signal.SIGTERM)[call % 2]
        cluster = Signalled().at(number, call)
        mlpack.host = Host(cluster)
        done = mlpack(*VERBS[command])
        if not cluster.is_sent:
            break
        sent += 1
        assert done.code == 128 + number, (call, done)
        assert done.stderr.splitlines()[-1] == f"mlpack: stopped by {number.name}"
        assert "Traceback" not in done.stderr
        assert _files(temporary) == {}
        assert _files(tmp_path / "hello-mpi") == package
    assert sent > 0
    assert life.calls == []
