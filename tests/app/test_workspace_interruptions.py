"""Pushes and pulls whose connection is cut at any command and any byte: the copies are identical afterwards."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from packager.app import workspace
from packager.cluster import download, upload
from packager.cluster.workspace import PARTS
from tests.local_pod import LocalPod, local_pod, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.app.target import Target

pytestmark = pytest.mark.thorough

LARGE = 60_000
FILES = {
    "large": os.urandom(LARGE),
    "deep/larger \\n": os.urandom(3 * LARGE),
    "deep/er/small": os.urandom(LARGE - 1),
    "zü": b"new",
    "empty": b"",
}
OLD = {"zü": b"old", "mine": b"m"}
"""Files that exist at the destination before the copy, of which one is replaced."""

PUSH_COMMANDS = ("list", "digest", "prepare", "append", "append", "unpack", "digest parts", "commit")
PULL_COMMANDS = ("list", "digest", "read", "read", "pack")

CUTS = ("in 0", "out 0", "out 34")
"""Cuts of any command: its input is lost, its answer is lost, and the end of its answer is lost."""

PUSH_CUTS = [(number, cut) for number in range(len(PUSH_COMMANDS)) for cut in CUTS]
PUSH_CUTS += [(number, f"in {size}") for number in (3, 4, 5) for size in (1, 700, 30_000, 59_000)]
PUSH_CUTS += [(1, "in 1"), (6, "in 100"), (7, "in 1"), (7, "in 100")]

PULL_CUTS = [(number, cut) for number in range(len(PULL_COMMANDS)) for cut in CUTS]
PULL_CUTS += [(number, f"out {size}") for number in (2, 3, 4) for size in (80, 700, 30_000, 59_000)]
PULL_CUTS += [(0, "out 90"), (1, "in 1"), (1, "out 100"), (4, "in 1")]


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPod]:
    monkeypatch.setattr(workspace, "_PAUSE", 0.0)
    monkeypatch.setattr(upload, "LARGE", LARGE)
    monkeypatch.setattr(download, "LARGE", LARGE)
    with local_pod() as pod:
        yield pod


def progress(label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    assert (label in ("pushing", "pulling"), total >= 0, unit) == (True, True, "bytes")
    return nullcontext(lambda _size: None)


def push(pod: LocalPod, target: Target, folder: Path) -> list[str]:
    """Push FILES over OLD, and return the lines that the user reads."""
    write(pod.claim, OLD)
    for path in OLD:
        (pod.claim / path).chmod(0o666)
    lines: list[str] = []
    session = workspace.session(pod.of(target), None, patience=5, image=None, tell=lines.append)
    workspace.push(session, write(folder, FILES), force=True, dry_run=False, progress=progress)
    assert pod.files() == {**OLD, **FILES}
    assert not (pod.claim / PARTS).exists()
    return lines


def pull(pod: LocalPod, target: Target, folder: Path) -> list[str]:
    """Pull FILES over OLD, and return the lines that the user reads."""
    write(pod.claim, FILES)
    lines: list[str] = []
    session = workspace.session(pod.of(target), None, patience=5, image=None, tell=lines.append)
    pulled = workspace.pull(session, write(folder, OLD), force=True, dry_run=False, progress=progress)
    assert pulled.is_complete
    assert read(folder) == {**OLD, **FILES}
    assert not (folder / PARTS).exists()
    return lines


@pytest.mark.parametrize(("copy", "commands"), [(push, PUSH_COMMANDS), (pull, PULL_COMMANDS)])
def test_copy_runs_the_commands_of_the_table(
    copy: Callable[..., list[str]], commands: tuple[str, ...], pod: LocalPod, target: Target, tmp_path: Path
) -> None:
    pod.cut(*["-"] * 20)
    assert copy(pod, target, tmp_path / "here") == []
    assert 20 - len((pod.home / "cuts").read_text().splitlines()) == len(commands)


@pytest.mark.parametrize(("number", "cut"), PUSH_CUTS)
def test_push_interrupted_at_any_command_ends_with_identical_files(
    number: int, cut: str, pod: LocalPod, target: Target, tmp_path: Path
) -> None:
    pod.cut(*["-"] * number, cut)
    lines = push(pod, target, tmp_path / "here")
    assert [line.partition("; ")[2] for line in lines] == ["continuing (attempt 2 of 5)"]


@pytest.mark.parametrize(("number", "cut"), PULL_CUTS)
def test_pull_interrupted_at_any_command_ends_with_identical_files(
    number: int, cut: str, pod: LocalPod, target: Target, tmp_path: Path
) -> None:
    pod.cut(*["-"] * number, cut)
    lines = pull(pod, target, tmp_path / "here")
    assert [line.partition("; ")[2] for line in lines] == ["continuing (attempt 2 of 5)"]


@pytest.mark.parametrize("copy", [push, pull])
def test_copy_interrupted_at_four_commands_in_a_row_ends_with_identical_files(
    copy: Callable[..., list[str]], pod: LocalPod, target: Target, tmp_path: Path
) -> None:
    pod.use_busybox()
    pod.cut("-", "out 10", "-", "-", "out 0", "-", "-", "in 0", "-", "-", "-", "out 20")
    lines = copy(pod, target, tmp_path / "here")
    assert 2 <= len(lines) <= 4
