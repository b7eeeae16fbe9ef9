"""Tests of time limits and signals: a verb ends at its timeout, together with the programs that it has started."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest

from packager.base.errors import HungError, TimedOutError
from packager.cli.asking import limited
from packager.cli.host import Host
from tests.cli.test_opening import VERBS
from tests.conftest import Mlpack
from tests.life import Life


@pytest.fixture
def hanging(tmp_path: Path, kubectl: Path) -> Path:
    """A kubectl that renders, and else does not end; it writes its process id to the file `pid`."""
    program = tmp_path / "kubectl"
    renders = f'[ "$1" = kustomize ] && exec {kubectl} "$@"'
    program.write_text(f"#!/bin/sh\n{renders}\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    return program


def test_timeout_ends_verb_and_hanging_kubectl(mlpack: Mlpack, tmp_path: Path, hanging: Path, package: Path) -> None:
    assert package.name == "hello-mpi"
    begin = time.monotonic()
    done = mlpack("deploy", "hello-mpi", "--no-verify", "--kubectl", hanging, "--timeout", "3s")
    message = "error: hello-mpi is not deployed after 3s\nhint: deploy again to complete it\n"
    assert (done.code, done.stderr) == (8, message)
    assert time.monotonic() - begin < 300, "the program would take 600 s"
    if (tmp_path / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


def test_program_that_hangs_for_the_rest_of_the_time_is_a_timeout() -> None:
    def hang(seconds: float) -> None:
        time.sleep(seconds)
        raise HungError("kubectl did not finish")

    with pytest.raises(TimedOutError, match="late"), limited(0.3, TimedOutError("late")):
        hang(0.1)
    for seconds in (600, None):
        with pytest.raises(HungError), limited(seconds, TimedOutError("late")):
            hang(0)


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

    def at(self, number: int, call: int) -> Self:
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
