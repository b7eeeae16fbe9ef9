"""Programs that are started: what they say comes back, and one that cannot run is named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from packager import process
from packager.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def streamed(argv: Sequence[str]) -> None:
    with process.stream(argv):
        pytest.fail("it was started")


@pytest.mark.parametrize("start", [process.run, streamed, process.attached], ids=["run", "stream", "attached"])
@pytest.mark.parametrize(
    ("program", "said", "hint"),
    [
        ("absent", "{}: no such program", "install {}, or put it on PATH"),
        ("folder", "{} could not be started: permission denied", None),
        ("text", "{} could not be started: exec format error", None),
        ("text/below", "{} could not be started: not a directory", None),
    ],
)
def test_a_program_that_does_not_start(
    start: Callable[[Sequence[str]], object], program: str, said: str, hint: str | None, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no program\n")
    (tmp_path / "text").chmod(0o755)
    path = str(tmp_path / program)
    with pytest.raises(ToolError) as refused:
        start([path])
    assert str(refused.value) == said.format(path)
    assert refused.value.hint == (hint and hint.format(path))
    assert refused.value.exit_code == 6


def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as refused:
        process.run(["sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60"], timeout=0.5)
    assert str(refused.value) == "sh did not end within 0.5 seconds"
    assert refused.value.exit_code == 6
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_a_program_writes_is_there_before_it_ends() -> None:
    with process.stream(["sh", "-c", "echo one; echo two; echo three >&2; exit 4"]) as running:
        assert running.stdout.readline() == b"one\n"
        assert running.stdout.read() == b"two\n"
        assert running.wait() == process.Finished(4, "", "three\n")


def test_a_program_is_stopped_when_nobody_reads_on() -> None:
    with process.stream(["sh", "-c", "echo $$; exec sleep 60"]) as running:
        pid = int(running.stdout.readline())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
