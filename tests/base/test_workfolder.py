"""Work folders of killed processes are removed, those of running ones and of other users are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from packager.base import workfolder
from packager.base.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

NAME = ".mlpack-work-abcd1234"
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
    [path] = parent.glob(".mlpack-work-*")
    return path


def tree(folder: Path) -> dict[str, object]:
    """Return all that is in `folder`, to be compared."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def test_sweep_removes_folder_of_a_killed_process(tmp_path: Path) -> None:
    work = left(tmp_path)
    assert sorted(path.name for path in work.iterdir()) == ["file", "folder", "lock"]
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == {}


def test_sweep_keeps_folder_of_a_running_process(tmp_path: Path) -> None:
    with workfolder.beside(tmp_path / "a") as work:
        (work / "file").touch()
        before = tree(tmp_path)
        workfolder.sweep(tmp_path)
        assert tree(tmp_path) == before
    assert tree(tmp_path) == {}


def test_sweep_removes_folder_without_a_lock_after_a_day(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "file").touch()
    workfolder.sweep(tmp_path)
    assert sorted(tree(tmp_path)) == [NAME, f"{NAME}/file"]
    os.utime(tmp_path / NAME, (0, time.time() - 25 * 60 * 60))
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == {}


def test_sweep_keeps_other_names_and_links(tmp_path: Path) -> None:
    for name in ("site", "work", "work-abcd123", "work-abcd12345", "packages"):
        (tmp_path / f".mlpack-{name}").mkdir()
        os.utime(tmp_path / f".mlpack-{name}", (0, 0))
    (tmp_path / "elsewhere").mkdir()
    left(tmp_path / "elsewhere").rename(tmp_path / "elsewhere/work")
    (tmp_path / NAME).symlink_to("elsewhere/work")
    before = tree(tmp_path)
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == before


def test_sweep_keeps_folders_of_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(tmp_path)
    before = tree(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1 + os.getuid())
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
    [work] = tmp_path.iterdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with workfolder.temporary() as folder:
        assert list(folder.iterdir()) == []
        (folder / "y").touch()
        assert not work.exists()
    assert tree(tmp_path) == {}


def test_missing_temporary_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(ToolError) as refused, workfolder.temporary():
        pass
    assert str(refused.value) == "cannot create a temporary folder: no such file or directory"
    assert (refused.value.hint, refused.value.exit_code) == ("set TMPDIR", 6)
