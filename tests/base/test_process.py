"""Programs: their output is returned, and errors name a program that cannot run."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import process
from packager.base.errors import HungError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def streamed(argv: Sequence[str]) -> None:
    with process.stream(argv):
        pytest.fail("it was started")


@pytest.mark.parametrize("start", [process.run, streamed, process.run_in_terminal], ids=["run", "stream", "attached"])
@pytest.mark.parametrize(
    ("program", "message", "hint"),
    [
        ("absent", "{}: program not found", "install {}, or put it on PATH"),
        ("text", "{} could not be started: exec format error", None),
    ],
)
def test_unstartable_program_is_reported(
    start: Callable[[Sequence[str]], object], program: str, message: str, hint: str | None, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no program\n")
    (tmp_path / "text").chmod(0o755)
    path = str(tmp_path / program)
    with pytest.raises(ToolError) as refused:
        start([path])
    assert str(refused.value) == message.format(path)
    assert refused.value.hint == (hint and hint.format(path))
    assert refused.value.exit_code == 6


def wait_for_start(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Let a program count as started when it has written a line to `file`, however busy the machine is."""

    class Started(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            super().__init__(argv, **options)
            while not (file.exists() and file.read_text().endswith("\n")):
                assert self.poll() is None
                time.sleep(0.01)

    monkeypatch.setattr(subprocess, "Popen", Started)


def test_program_is_killed_after_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_start(monkeypatch, tmp_path / "pid")
    with pytest.raises(ToolError) as refused:
        process.run(["sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 600"], timeout=0.5)
    assert str(refused.value) == "sh did not finish within 0.5 seconds"
    assert refused.value.exit_code == 6
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("start", ["run", "stream"])
def test_children_of_a_killed_program_are_killed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """The child is like a login program of a kubeconfig: kubectl waits for it, and it has kubectl's pipes."""
    wait_for_start(monkeypatch, tmp_path / "child")
    argv = ["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; wait"]
    if start == "run":
        with pytest.raises(HungError, match=r"^sh did not finish within 0\.5 seconds$"):
            process.run(argv, timeout=0.5)
    else:
        with process.stream(argv):
            pass
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    state = Path(f"/proc/{child}/stat")
    with suppress(FileNotFoundError, ProcessLookupError):  # it is gone, also while its state is read
        while " Z " not in state.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_program_on_the_terminal_stays_in_the_terminals_group(tmp_path: Path) -> None:
    process.run_in_terminal(["sh", "-c", f"cut -d' ' -f5 /proc/$$/stat >{tmp_path}/group"])
    assert int((tmp_path / "group").read_text()) == os.getpgrp()


def test_output_is_readable_before_the_end_limited_and_replaced() -> None:
    with process.stream(["sh", "-c", "echo one; echo two; echo three >&2; exit 4"]) as running:
        assert running.stdout.readline() == b"one\n"
        assert running.stdout.read() == b"two\n"
        assert running.wait() == process.Finished(4, "", "three\n")
    assert process.run(["printf", "1234"], max_bytes=4) == process.Finished(0, "1234", "")
    with pytest.raises(ToolError) as refused:
        process.run(["printf", "12345"], max_bytes=4)
    assert str(refused.value) == "printf printed more than 4 bytes and was stopped"
    assert process.run(["sh", "-c", MUCH]) == process.Finished(0, "", KEPT)
    with process.stream(["sh", "-c", MUCH]) as running:
        assert running.wait() == process.Finished(0, "", KEPT)
    assert process.run(["printf", r"a\377\r\n"]) == process.Finished(0, "a\ufffd\r\n", "")


def test_idle_is_called_with_seconds_without_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            raise TimeoutError

    waited: list[float] = []
    with process.stream(["sh", "-c", "echo one; exec sleep 600"], idle=idle) as running:
        monkeypatch.setattr(process, "TICK", 600)
        assert running.stdout.readline() == b"one\n"
        monkeypatch.setattr(process, "TICK", 0.01)
        with pytest.raises(TimeoutError):
            running.stdout.read()
    assert waited == [0.01, 0.02]


def test_program_is_stopped_when_reading_ends() -> None:
    with process.stream(["sh", "-c", "echo $$; exec sleep 600"]) as running:
        pid = int(running.stdout.readline())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_program_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_STOP_SECONDS", 0.1)
    with process.stream(["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done"]) as running:
        pid = int(running.stdout.readline())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


MUCH = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2"
KEPT = "x" * ((1 << 20) - 8) + "the end\n"


def test_program_may_close_its_outputs_before_it_ends() -> None:
    closed = "exec >&- 2>&-; sleep {}; exit 3"
    assert process.run(["sh", "-c", closed.format(0.1)], timeout=600) == process.Finished(3, "", "")
    with pytest.raises(ToolError):
        process.run(["sh", "-c", closed.format(600)], timeout=0.3)


@pytest.mark.parametrize(
    ("options", "shown"),
    [({}, ("out\n", "err\n")), ({"stdout_to_stderr": True}, ("", "out\nerr\n")), ({"quiet": True}, ("", "err\n"))],
)
def test_terminal_shows_selected_outputs_of_a_program(
    capfd: pytest.CaptureFixture[str], options: dict[str, Any], shown: tuple[str, str]
) -> None:
    assert process.run_in_terminal(["sh", "-c", "echo out; echo err >&2; exit 3"], **options) == 3
    assert capfd.readouterr() == shown


def test_program_gets_additional_variables(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KEPT", "kept")
    argv, variables = ["sh", "-c", "echo $KEPT $ADDED"], {"ADDED": "added"}
    assert process.run(argv, variables=variables).stdout == "kept added\n"
    with process.stream(argv, variables=variables) as running:
        assert running.stdout.read() == b"kept added\n"
    assert process.run_in_terminal(argv, variables=variables) == 0
    assert capfd.readouterr().out == "kept added\n"
