"""Creates hidden folders for work in progress; a later run removes those of a process that was killed.

A work folder is called `.mlpack-` and 32 hexadecimal digits. In it lies a mark, which names the folder and its inode
and is locked for as long as its process lives. No other folder is ever removed: the name alone proves nothing, so
a folder without a mark that was made in it is not ours.

    mark      whose folder this is
    file      an output that is being written
    folder    the same, as a folder; or what is unpacked for a moment
    old       the output that `folder` is about to replace
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import ToolError, reason
from packager.base.locks import lock
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE, FOLDER, OLD = "file", "folder", "old"

_PREFIX = ".mlpack-"
_NAME = re.compile(r"\.mlpack-[0-9a-f]{32}")
_MARK = "mark"
_MAGIC = "mlpack: work in progress"
_MARK_BYTES = 4096

# A folder that may be written need not be readable.
_OPEN_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_MARK = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

# Another process may sweep between the creation of a folder and of its locked mark, and remove it as a leftover.
_TRIES = 100


@contextlib.contextmanager
def beside(destination: Path) -> Iterator[Path]:
    """Create a work folder beside `destination`, on the same file system; it is removed when the block ends.

    Raises:
        ToolError: Other processes remove it again and again.
        OSError: The folder of `destination` cannot be written.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with _new_work_folder(destination.parent, destination.name) as folder:
        yield folder


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Create an empty folder for temporary files in $TMPDIR; it is removed when the block ends.

    Raises:
        ToolError: Temporary files cannot be created, or the disk is full.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_new_work_folder(Path(tempfile.gettempdir()), "temporary")) / FOLDER
            folder.mkdir()
        except OSError as error:
            raise ToolError(f"cannot create a temporary folder: {reason(error)}", hint="set TMPDIR") from None
        yield folder


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals that ask the process to stop until the block ends."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def sweep(parent: Path) -> None:
    """Remove the work folders that killed processes left in `parent`, and restore an old output that is in one."""
    with contextlib.suppress(OSError):
        parent_fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in filter(_NAME.fullmatch, os.listdir(parent_fd)):
                with contextlib.suppress(OSError):
                    _sweep_one(parent_fd, name)
        finally:
            os.close(parent_fd)


def is_in_work_folder(path: str) -> bool:
    """Whether `path` is a work folder or below one, and so not worth a message."""
    return _NAME.search(path) is not None


@cache
def sweep_once(parent: Path) -> None:
    """Sweep `parent` once per process: a build of many packages need not look each time."""
    sweep(parent)


@contextlib.contextmanager
def _new_work_folder(parent: Path, destination: str) -> Iterator[Path]:
    sweep_once(parent)
    claim = None
    try:
        with signals_blocked():
            claim = _create(parent, destination)
        yield parent / claim.name
    finally:
        if claim:
            with signals_blocked():
                claim.release()


class _Claim(Value, frozen=True):
    """A work folder of this process, held by file descriptors, which stay valid if a path is renamed.

    Attributes:
        parent_fd: The descriptor of its parent folder.
        name: The name of the work folder.
        folder: The work folder itself.
        mark: The mark, locked.
        destination: The name of the output that is written in it.
    """

    parent_fd: int
    name: str
    folder: int
    mark: int
    destination: str

    def release(self) -> None:
        with contextlib.suppress(OSError):
            _remove(self.parent_fd, self.name, self.folder, self.destination)
        for descriptor in (self.mark, self.folder, self.parent_fd):
            os.close(descriptor)


def _create(parent: Path, destination: str) -> _Claim:
    with contextlib.ExitStack() as stack:
        parent_fd = _open_until_exit(stack, str(parent), _OPEN_PLACE)
        for _ in range(_TRIES):
            name = f"{_PREFIX}{os.urandom(16).hex()}"
            os.mkdir(name, 0o700, dir_fd=parent_fd)
            with contextlib.ExitStack() as attempt, contextlib.suppress(FileNotFoundError):
                attempt.callback(_remove_quietly, os.rmdir, name, parent_fd)
                folder = _open_until_exit(attempt, name, _OPEN_FOLDER, parent_fd)
                mark = _open_until_exit(attempt, _MARK, _OPEN_MARK | os.O_CREAT | os.O_EXCL, folder)
                attempt.callback(_remove_quietly, os.unlink, _MARK, folder)
                if lock(mark) is not False and os.fstat(mark).st_nlink == 1:
                    os.write(mark, _mark_content(name, folder, destination))
                    attempt.pop_all()
                    stack.pop_all()
                    return _Claim(parent_fd, name, folder, mark, destination)
    raise ToolError(f"other mlpack processes keep removing the temporary files of this one in {parent}")


def _open_until_exit(stack: contextlib.ExitStack, path: str, flags: int, parent_fd: int | None = None) -> int:
    descriptor = os.open(path, flags, 0o600, dir_fd=parent_fd)
    stack.callback(os.close, descriptor)
    return descriptor


def _remove_quietly(remove: Callable[..., None], name: str, parent_fd: int) -> None:
    with contextlib.suppress(OSError):
        remove(name, dir_fd=parent_fd)


def _sweep_one(parent_fd: int, name: str) -> None:
    with contextlib.ExitStack() as stack:
        folder = _open_until_exit(stack, name, _OPEN_FOLDER, parent_fd)
        status = os.fstat(folder)
        if not _is_own(status, 0o700) or status.st_dev != os.fstat(parent_fd).st_dev:
            return
        if not os.listdir(folder):  # killed before there was a mark
            os.rmdir(name, dir_fd=parent_fd)
            return
        mark = _open_until_exit(stack, _MARK, _OPEN_MARK, folder)
        status = os.fstat(mark)
        if not (stat.S_ISREG(status.st_mode) and _is_own(status, 0o600) and status.st_nlink == 1 and lock(mark)):
            return
        if os.fstat(mark).st_size == 0 and os.listdir(folder) == [_MARK]:  # killed before anything was in the mark
            os.unlink(_MARK, dir_fd=folder)
            os.rmdir(name, dir_fd=parent_fd)
            return
        _remove(parent_fd, name, folder, _destination(mark, name, folder))


def _is_own(status: os.stat_result, mode: int) -> bool:
    return status.st_uid == os.geteuid() and status.st_mode & 0o777 == mode


def _mark_content(name: str, folder: int, destination: str) -> bytes:
    return json.dumps([_MAGIC, name, os.fstat(folder).st_ino, destination]).encode()


def _destination(mark: int, name: str, folder: int) -> str:
    """Return the name of the output that a work folder is for. Raises OSError when the mark is not this folder's."""
    content = os.pread(mark, _MARK_BYTES, 0)
    try:
        destination = str(json.loads(content)[-1])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise OSError("not a mark") from None
    if content != _mark_content(name, folder, destination) or destination in ("", ".", "..") or "/" in destination:
        raise OSError("the mark of another folder")
    return destination


def _remove(parent_fd: int, name: str, folder: int, destination: str) -> None:
    """Remove a work folder, its mark last; raise OSError if that fails or it contains files that are not ours.

    An old output that has not been replaced yet is put back, unless something else exists at its path.
    """
    contents = set(os.listdir(folder))
    if not contents <= {_MARK, FILE, FOLDER, OLD}:
        raise OSError("it contains other files")
    if {FOLDER, OLD} <= contents:
        _put_back(parent_fd, folder, destination)
        contents.remove(OLD)
    for entry in contents - {_MARK}:
        _remove_entry(folder, entry)
    os.unlink(_MARK, dir_fd=folder)
    os.rmdir(name, dir_fd=parent_fd)


def _put_back(parent_fd: int, folder: int, destination: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.stat(destination, dir_fd=parent_fd, follow_symlinks=False)
        raise OSError("another file is in the place of the old output")
    os.rename(OLD, destination, src_dir_fd=folder, dst_dir_fd=parent_fd)


def _remove_entry(folder: int, entry: str) -> None:
    """Remove a file, a link or a folder; no link in it is followed, and no other file system entered."""
    status = os.stat(entry, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(entry, dir_fd=folder)
    elif status.st_dev == os.fstat(folder).st_dev:
        shutil.rmtree(entry, dir_fd=folder)
    else:
        raise OSError("another file system")
