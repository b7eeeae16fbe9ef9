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

PUSH_CUTS = [
    *((0, "in 0"), (1, "out 34"), (2, "out 0"), (3, "in 700"), (4, "in 30000"), (5, "in 59000")),
    *((6, "in 100"), (7, "in 1"), (7, "out 0")),
]
PULL_CUTS = [(0, "out 90"), (1, "out 0"), (2, "out 700"), (3, "out 59000"), (4, "in 1"), (4, "out 80")]
"""The number of a command, and the bytes of its input or its answer after which the connection is cut."""


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
