"""Tests of the journal that makes an upgrade whole."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, UsageError, VerificationError
from packager.package import journal
from packager.package.journal import Step
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Callable

OLD = {"a": b"old a", "folder/b": b"old b", "folder/sub/c": b"old c", "docs/d": b"old d"}
NEW = {"a": b"new a", "folder/b": b"new b", "docs": b"now a file", "new/e": b"new e"}
OWN = {"output/results": b"mine", ".git/config": b"mine"}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


STEPS = [
    *(Step(path, digest(OLD[path]), None, None) for path in ("docs/d", "folder/sub/c")),
    Step("a", digest(OLD["a"]), "0644", NEW["a"]),
    Step("docs", None, "0644", NEW["docs"]),
    Step("folder/b", digest(OLD["folder/b"]), "0755", NEW["folder/b"]),
    Step("new/e", None, "0644", NEW["new/e"]),
]


def without_work(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files without those of work folders, which a later run removes."""
    return {path: content for path, content in contents.items() if not re.match(r"\.mlpack-work-[a-z0-9_]{8}/", path)}


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    for path, content in (OLD | OWN).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


class StoppedError(BaseException):
    """The process ended, as by a signal."""


def stop_before_change(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """End the process before one of its renames and deletions of files, which are counted from 0."""
    left = number
    for name in ("rename", "unlink"):
        change = getattr(Path, name)

        def counted(path: Path, *arguments: object, change: object = change, **options: object) -> object:
            nonlocal left
            left -= 1
            if left == -1:
                raise StoppedError
            return change(path, *arguments, **options)  # type: ignore[operator]

        monkeypatch.setattr(Path, name, counted)


def stopped(action: Callable[[], None], number: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run an action, and return whether the process ended before one of its changes."""
    with monkeypatch.context() as patched:
        stop_before_change(patched, number)
        try:
            action()
        except StoppedError:
            return True
    return False


def test_change_replaces_adds_and_removes_files(folder: Path) -> None:
    journal.change(folder, STEPS)
    assert files(folder) == NEW | OWN
    assert (folder / "folder/b").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in folder.iterdir()) == [".git", "a", "docs", "folder", "new", "output"]


def test_change_keeps_the_permissions_of_existing_files(folder: Path) -> None:
    for path, mode in (("a", 0o700), ("folder/b", 0o640)):
        (folder / path).chmod(mode)
    journal.change(folder, STEPS)
    modes = {path: (folder / path).stat().st_mode & 0o777 for path in ("a", "folder/b", "new/e")}
    assert modes == {"a": 0o600, "folder/b": 0o750, "new/e": 0o644}


@pytest.mark.parametrize("end", [journal.complete, journal.undo])
def test_interrupted_change_is_completed_or_undone(
    end: Callable[[Path], None], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is interrupted before each of its changes, and `end` is interrupted before each of its own."""
    monkeypatch.setattr(journal, "_MOST_COPIED", -1)
    kept = shutil.copytree(folder, tmp_path / "kept")
    number = interrupted = 0
    while stopped(lambda: journal.change(folder, STEPS), number, monkeypatch):
        number += 1
        was_pending = is_pending = (folder / journal.NAME).exists()
        for change in range(20):
            if is_pending:
                interrupted += 1
                with pytest.raises(VerificationError, match=r"an upgrade of .* was interrupted"), opened(folder):
                    pass
                stopped(lambda: end(folder), change, monkeypatch)
                is_pending = (folder / journal.NAME).exists()
        expected = (NEW if end is journal.complete else OLD,) if was_pending else (OLD, NEW)
        assert without_work(files(folder)) in [content | OWN for content in expected]
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
    assert number > 5
    assert interrupted > 20


@pytest.mark.parametrize("end", [journal.complete, journal.undo])
def test_edits_since_the_interruption_are_kept(
    end: Callable[[Path], None], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stopped(lambda: journal.change(folder, STEPS), 5, monkeypatch)  # before folder/b
    before = without_work(files(folder))
    for path in ("a", "folder/b"):
        (folder / path).write_bytes(b"edited")
    lost = ["folder/b"] if end is journal.complete else ["a", "folder/b"]
    for _ in range(2):
        with pytest.raises(VerificationError, match="edits would be lost") as refused:
            end(folder)
        assert [problem.file for problem in refused.value.problems] == [str(folder / path) for path in lost]
        assert without_work(files(folder)) == before | {"a": b"edited", "folder/b": b"edited"}
    for number, path in enumerate(lost):
        (folder / path).rename(tmp_path / f"mine{number}")
    end(folder)
    expected = NEW | {"a": b"edited"} if end is journal.complete else OLD
    assert without_work(files(folder)) == expected | OWN
    assert (tmp_path / "mine0").read_bytes() == b"edited"


def test_file_that_changed_since_it_was_read_stops_change(folder: Path) -> None:
    (folder / "folder/b").write_bytes(b"other")
    with pytest.raises(ToolError, match="changed since it was read"):
        journal.change(folder, STEPS)
    assert files(folder) == OLD | OWN | {"folder/b": b"other"}


def test_folder_without_journal_cannot_be_completed(folder: Path) -> None:
    for end in (journal.complete, journal.undo):
        with pytest.raises(UsageError, match=r"no upgrade of .* was interrupted"):
            end(folder)


@pytest.mark.parametrize(
    "row",
    [
        {"path": "../outside", "before": None, "after": "0", "mode": "0644"},
        {"path": ".git/config", "before": None, "after": "0", "mode": "0644"},
        {"path": "a", "before": None, "after": "0", "mode": "4755"},
        {"path": "a"},
        ["path"],
    ],
)
def test_hostile_journal_is_refused(row: object, folder: Path) -> None:
    place = folder / journal.NAME
    (place / "new").mkdir(parents=True)
    (place / "new/0").write_bytes(b"evil")
    (place / "plan.json").write_text(json.dumps([row]))
    before = files(folder)
    for end in (journal.complete, journal.undo):
        with pytest.raises(VerificationError, match="is not the journal of an upgrade"):
            end(folder)
        (place / "undo.json").exists() and (place / "undo.json").rename(place / "plan.json")
    assert files(folder) == before


def test_journal_does_not_lead_through_links(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    place = folder / journal.NAME
    (place / "new").mkdir(parents=True)
    (place / "new/0").write_bytes(b"evil")
    row = {"path": "link/file", "before": None, "after": digest(b"evil"), "mode": "0644"}
    (place / "plan.json").write_text(json.dumps([row]))
    with pytest.raises(VerificationError, match="is a link"):
        journal.complete(folder)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_damaged_content_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(lambda: journal.change(folder, STEPS), 4, monkeypatch)
    (folder / journal.NAME / "new/5").write_bytes(b"torn")
    with pytest.raises(VerificationError, match="is damaged"):
        journal.complete(folder)
    journal.undo(folder)
    assert files(folder) == OLD | OWN
