"""Folders of killed processes are removed; folders that others made are not, whatever their names and contents."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from packager.base import workfolder
from packager.base.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = ".mlpack-0123456789abcdef0123456789abcdef"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def killed(code: str) -> None:
    """Run `code` in a process that is killed at its end."""
    program = f"from pathlib import Path\nfrom packager.base import atomic, workfolder\n{code}\n"
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL


def left(parent: Path) -> Path:
    """Return a work folder, with a file and a folder in it, that a killed process has left in `parent`."""
    killed(
        f"with workfolder.beside(Path({str(parent / 'a')!r})) as work:\n"
        f"    (work / 'file').touch(); (work / 'folder/sub').mkdir(parents=True); (work / 'folder/sub/x').touch()\n"
        f"    {KILL}"
    )
    [path] = parent.glob(".mlpack-*")
    return path


def tree(folder: Path) -> dict[str, object]:
    """Return all that is in `folder`, to be compared."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def test_sweep_removes_folder_of_a_killed_process(tmp_path: Path) -> None:
    work = left(tmp_path)
    assert sorted(path.name for path in work.iterdir()) == ["file", "folder", "mark"]
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == {}


def test_sweep_keeps_folder_of_a_running_process(tmp_path: Path) -> None:
    with workfolder.beside(tmp_path / "a") as work:
        (work / "file").touch()
        before = tree(tmp_path)
        workfolder.sweep(tmp_path)
        assert tree(tmp_path) == before
    assert tree(tmp_path) == {}


def site(parent: Path) -> None:
    """A folder of the user's that begins like ours."""
    for name in ("site", "abc123", "abcdefgh", "0" * 31, "0" * 33, "G" * 32):
        (parent / f".mlpack-{name}").mkdir(mode=0o700)


def named_like_ours(parent: Path) -> None:
    (parent / NAME).mkdir(mode=0o700)
    (parent / NAME / "file").write_text("theirs")


def with_more_in_it(parent: Path) -> None:
    (left(parent) / "theirs").touch()


def a_link(parent: Path) -> None:
    (parent / "elsewhere").mkdir()
    left(parent / "elsewhere").rename(parent / "elsewhere/work")
    (parent / NAME).symlink_to("elsewhere/work")


@pytest.mark.parametrize(
    "put",
    [named_like_ours, with_more_in_it, a_link],
)
def test_sweep_keeps_folders_without_our_mark(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path)
    before = tree(tmp_path)
    assert before
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == before


def test_sweep_follows_no_link_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/x").touch()
    work = left(tmp_path)
    (work / "folder/link").symlink_to(tmp_path / "theirs")
    (work / "file").unlink()
    (work / "file").symlink_to(tmp_path / "theirs/x")
    workfolder.sweep(tmp_path)
    assert sorted(tree(tmp_path)) == ["theirs", "theirs/x"]


REPLACE = (
    "import ctypes, pathlib\n"
    "ctypes.CDLL = lambda *_, **__: object()  # a system that cannot exchange two folders in one step\n"
    "rename = pathlib.Path.rename\n"
    "def killed(path, target):\n"
    "    if (path.name, WHEN) == ('folder', 'between'): {kill}\n"
    "    rename(path, target)\n"
    "    if (path.name, WHEN) == ('folder', 'after'): {kill}\n"
    "pathlib.Path.rename = killed\n"
    "with atomic.folder(Path({path!r})) as work: (work / 'new').touch()\n"
)


def replacing(path: Path, when: str) -> None:
    """Replace the folder `path`, which holds `old`, and be killed at it."""
    path.mkdir()
    (path / "old").touch()
    killed(f"WHEN = {when!r}\n" + REPLACE.format(kill=KILL, path=str(path)))


def test_sweep_restores_old_output_without_a_replacement(tmp_path: Path) -> None:
    replacing(tmp_path / "a", "between")
    assert not (tmp_path / "a").exists()
    workfolder.sweep(tmp_path)
    assert sorted(tree(tmp_path)) == ["a", "a/old"]


def test_temporary_folders_are_swept_by_the_same_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    killed(f"with workfolder.temporary() as folder:\n    (folder / 'x').touch()\n    {KILL}")
    [(work, _)] = [item for item in tree(tmp_path).items() if "/" not in item[0]]
    site(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with workfolder.temporary() as folder:
        assert list(folder.iterdir()) == []
        (folder / "y").touch()
        assert not (tmp_path / work).exists()
    assert len(tree(tmp_path)) == 6


def test_missing_temporary_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(ToolError) as refused, workfolder.temporary():
        pass
    assert str(refused.value) == "cannot create a temporary folder: no such file or directory"
    assert (refused.value.hint, refused.value.exit_code) == ("set TMPDIR", 6)
