"""An output is the complete old or new one; a failed write leaves no files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import atomic
from packager.base.errors import ToolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_appears_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with atomic.file(path) as stream:
        stream.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["b"]


def test_failed_file_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic.file(path) as stream:
        stream.write(b"new"[: 1 // 0])
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_folder_replaces_another_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool
) -> None:
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


def test_folder_that_cannot_take_its_place_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    (tmp_path / "a").mkdir()
    (tmp_path / "a/old").touch()
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.name == "folder":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ToolError, match="input/output error"), atomic.folder(tmp_path / "a"):
        pass
    assert (names(tmp_path), names(tmp_path / "a")) == (["a"], ["old"])


def test_failed_folder_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").write_text("")
    with pytest.raises(ZeroDivisionError), atomic.folder(path) as work:
        (work / "new").write_text("x" * (1 // 0))
    assert names(path) == ["old"]
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("file/a", "file/a cannot be written: file exists"),
        ("x" * 300, f"{'x' * 300} cannot be written: file name too long"),
    ],
)
def test_unwritable_destination_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, destination: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError) as refused, atomic.file(Path(destination)) as stream:
        stream.write(b"x")
    assert str(refused.value).startswith(message)
    assert refused.value.exit_code == 6
    assert names(tmp_path) == ["file"]


def test_full_disk_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="a cannot be written: no space left on device"), atomic.file(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


THERE = "a already exists and was left unchanged"


def put_file(path: Path, content: str = "theirs") -> None:
    path.write_text(content)


def put_folder(path: Path) -> None:
    path.mkdir()
    put_file(path / "theirs")


def put_link(path: Path) -> None:
    path.symlink_to("nothing")


def look(path: Path) -> tuple[int, list[str]]:
    return path.lstat().st_ino, names(path) if path.is_dir() else []


@pytest.mark.parametrize("put", [put_link, Path.mkdir])
@pytest.mark.parametrize("make", [atomic.file, atomic.folder])
def test_existing_output_is_kept_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], None], make: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("a"))
    before = look(Path("a"))
    with pytest.raises(UsageError) as refused, make(Path("a"), exists_hint="--force replaces it"):
        pytest.fail("the work is begun")
    assert (str(refused.value), refused.value.hint) == (THERE, "--force replaces it")
    assert (look(Path("a")), names(Path())) == (before, ["a"])


@pytest.mark.parametrize("put", [put_file, put_folder])
@pytest.mark.parametrize("make", [atomic.file, atomic.folder])
def test_output_that_appears_during_the_work_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], None], make: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused, make(Path("a"), exists_hint="--force replaces it"):
        put(Path("a"))
    assert (str(refused.value), refused.value.hint) == (THERE, "--force replaces it")
    assert names(Path()) == ["a"]
    assert not Path("a").is_file() or Path("a").read_text() == "theirs"
    assert not Path("a").is_dir() or names(Path("a")) == ["theirs"]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_file_replaces_only_plain_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(Path("a"))
    before = Path("a").lstat()
    with pytest.raises(UsageError) as refused, atomic.file(Path("a")):
        pass
    assert str(refused.value) == "a is not a plain file and was left unchanged"
    assert Path("a").lstat().st_ino == before.st_ino
    assert names(Path()) == ["a"]


def test_folder_replaces_only_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put_file(Path("a"))
    with pytest.raises(UsageError) as refused, atomic.folder(Path("a")):
        pass
    assert str(refused.value) == "a is not a folder and was left unchanged"
