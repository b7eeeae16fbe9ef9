"""An output is the old one or the new one, whole; what failed leaves nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from packager import atomic
from packager.errors import ToolError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with atomic.file(path) as stream:
        stream.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["b"]


def test_a_file_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic.file(path) as stream:
        stream.write(b"new"[: 1 // 0])
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_replaces_another_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool) -> None:
    if not exchanges:  # a file system, or a system, that cannot
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").write_text("")
    with atomic.folder(path) as work:
        (work / "new").write_text("")
        assert names(path) == ["old"]
    assert names(path) == ["new"]
    assert names(tmp_path) == ["a"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").write_text("")
    with pytest.raises(ZeroDivisionError), atomic.folder(path) as work:
        (work / "new").write_text("x" * (1 // 0))
    assert names(path) == ["old"]
    assert names(tmp_path) == ["a"]


def test_a_link_is_replaced_and_what_it_names_is_not(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "x").write_text("")
    (tmp_path / "a").symlink_to("theirs")
    with atomic.folder(tmp_path / "a") as work:
        (work / "new").write_text("")
    assert not (tmp_path / "a").is_symlink()
    assert names(tmp_path / "theirs") == ["x"]
    assert names(tmp_path) == ["a", "theirs"]


def test_what_a_killed_process_left_is_removed_and_a_living_one_s_is_not(tmp_path: Path) -> None:
    (tmp_path / ".mlpack-left").mkdir()
    (tmp_path / ".mlpack-left" / "file").write_text("")
    with atomic.file(tmp_path / "a"):
        (at_work,) = names(tmp_path)
        assert at_work != ".mlpack-left"
        with atomic.file(tmp_path / "b") as stream:
            stream.write(b"b")
        assert names(tmp_path) == [at_work, "b"]
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("file/a", "file/a cannot be written: file exists"),
        ("file/b/a", "file/b/a cannot be written: not a directory"),
        ("x" * 300, f"{'x' * 300} cannot be written: file name too long"),
    ],
)
def test_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, destination: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError) as refused, atomic.file(Path(destination)) as stream:
        stream.write(b"x")
    assert str(refused.value).startswith(message)
    assert refused.value.exit_code == 6
    assert names(tmp_path) == ["file"]


def test_a_folder_where_all_that_is_begun_is_taken_away_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tempfile.mkdtemp

    def swept(**where: Any) -> str:
        """Make a folder that another process takes for one that was left, before it has a lock."""
        made: str = make(**where)
        Path(made).rmdir()
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with pytest.raises(ToolError) as refused, atomic.file(tmp_path / "a"):
        pass
    assert str(refused.value) == f"other processes of mlpack take away what this one begins in {tmp_path}"
    assert refused.value.exit_code == 6


def test_a_reader_that_has_gone_is_not_taken_for_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), atomic.file(tmp_path / "a"):
        raise BrokenPipeError(32, "Broken pipe")
    assert names(tmp_path) == []


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="a cannot be written: no space left on device"), atomic.file(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []
