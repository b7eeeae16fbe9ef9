"""Folders of killed processes are removed; folders that others made are not, whatever their names and contents."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from packager.base import atomic, workfolder
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


def test_next_write_beside_it_removes_folder_of_a_killed_process(tmp_path: Path) -> None:
    left(tmp_path)
    with atomic.file(tmp_path / "b"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_sweep_keeps_folder_of_a_running_process(tmp_path: Path) -> None:
    with workfolder.beside(tmp_path / "a") as work:
        (work / "file").touch()
        before = tree(tmp_path)
        workfolder.sweep(tmp_path)
        assert tree(tmp_path) == before
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("made", [[], ["mark"]])
def test_sweep_removes_empty_folder_without_mark(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / NAME).mkdir(mode=0o700)
    for name in made:
        (tmp_path / NAME / name).touch(mode=0o600)
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == {}


def site(parent: Path) -> None:
    """A folder of the user's that begins like ours."""
    for name in ("site", "abc123", "abcdefgh", "0" * 31, "0" * 33, "G" * 32):
        (parent / f".mlpack-{name}").mkdir(mode=0o700)


def named_like_ours(parent: Path) -> None:
    (parent / NAME).mkdir(mode=0o700)
    (parent / NAME / "file").write_text("theirs")


def with_an_empty_mark(parent: Path) -> None:
    named_like_ours(parent)
    (parent / NAME / "mark").touch(mode=0o600)


def with_a_copied_mark(parent: Path) -> None:
    work = left(parent)
    work.rename(parent / "moved")
    named_like_ours(parent)
    shutil.copy2(parent / "moved/mark", parent / NAME)


def with_a_mark_for_its_name(parent: Path) -> None:
    """Copied whole, its name and all: the inode is another."""
    work = left(parent)
    work.rename(parent / "moved")
    shutil.copytree(parent / "moved", work)
    shutil.rmtree(parent / "moved")
    assert work.stat().st_mode & 0o777 == 0o700


def renamed(parent: Path) -> None:
    left(parent).rename(parent / NAME)


def with_more_in_it(parent: Path) -> None:
    (left(parent) / "theirs").touch()


def a_link(parent: Path) -> None:
    (parent / "elsewhere").mkdir()
    left(parent / "elsewhere").rename(parent / "elsewhere/work")
    (parent / NAME).symlink_to("elsewhere/work")


def a_mark_that_is_a_link(parent: Path) -> None:
    work = left(parent)
    (work / "mark").rename(parent / "mark")
    (work / "mark").symlink_to("../mark")


def a_mark_with_two_names(parent: Path) -> None:
    (parent / "mark").hardlink_to(left(parent) / "mark")


def a_pipe_for_a_mark(parent: Path) -> None:
    (parent / NAME).mkdir(mode=0o700)
    os.mkfifo(parent / NAME / "mark", 0o600)


def opened_to_others(parent: Path) -> None:
    left(parent).chmod(0o777)


def a_file(parent: Path) -> None:
    (parent / NAME).touch()


def a_pipe(parent: Path) -> None:
    os.mkfifo(parent / NAME)


def of_another_user(parent: Path) -> None:
    os.chown(left(parent), 12345, 12345)


def with_a_mark_of_another_user(parent: Path) -> None:
    os.chown(left(parent) / "mark", 12345, 12345)


AS_ROOT = [of_another_user, with_a_mark_of_another_user] if os.geteuid() == 0 else []


@pytest.mark.parametrize(
    "put",
    [
        site,
        named_like_ours,
        with_an_empty_mark,
        with_a_copied_mark,
        with_a_mark_for_its_name,
        renamed,
        with_more_in_it,
        a_link,
        a_mark_that_is_a_link,
        a_mark_with_two_names,
        a_pipe_for_a_mark,
        opened_to_others,
        a_file,
        a_pipe,
        *AS_ROOT,
    ],
)
def test_sweep_keeps_folders_without_our_mark(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path)
    before = tree(tmp_path)
    assert before
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "mark", [b"", b"x", b"[]", b"7", b"null", b"[" * 4000, b'{"a": 1}', b"\xff" * 9000, b'["mlpack", "x", 1, "../a"]']
)
def test_sweep_keeps_folder_with_an_invalid_mark(tmp_path: Path, mark: bytes) -> None:
    (left(tmp_path) / "mark").write_bytes(mark)
    before = tree(tmp_path)
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


def test_sweep_does_not_enter_another_file_system(tmp_path: Path) -> None:
    work = left(tmp_path)
    script = (
        f"mount -t tmpfs none '{work}/folder' && touch '{work}/folder/theirs' &&"
        f" {sys.executable} -c 'from pathlib import Path; from packager.base import workfolder;"
        f' workfolder.sweep(Path("{tmp_path}"))\' && ls {work}/folder'
    )
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*unshare, "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces on this machine, and so no file system of our own")
    done = subprocess.run([*unshare, script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("theirs\n", "")


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


def test_sweep_keeps_old_output_if_its_place_is_occupied(tmp_path: Path) -> None:
    replacing(tmp_path / "a", "between")
    (tmp_path / "a").write_text("theirs")
    before = tree(tmp_path)
    workfolder.sweep(tmp_path)
    assert tree(tmp_path) == before


def test_sweep_removes_replaced_output(tmp_path: Path) -> None:
    replacing(tmp_path / "a", "after")
    workfolder.sweep(tmp_path)
    assert sorted(tree(tmp_path)) == ["a", "a/new"]


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


def test_work_folder_removed_repeatedly_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.mkdir

    def swept(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Make a folder that another process takes for one that was left, before it has a mark."""
        make(name, mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swept)
    with pytest.raises(ToolError) as refused, atomic.file(tmp_path / "a"):
        pass
    assert str(refused.value) == f"other mlpack processes keep removing the temporary files of this one in {tmp_path}"
    assert refused.value.exit_code == 6


def test_unlistable_folder_can_be_written(tmp_path: Path) -> None:
    humble = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []
    path = str(tmp_path / "a")
    code = f"from pathlib import Path; from packager.base import atomic\nwith atomic.file(Path({path!r})): pass"
    tmp_path.chmod(0o300)
    done = subprocess.run([*humble, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
