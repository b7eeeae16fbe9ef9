"""Creates hidden folders for work in progress; a later run removes those of a process that was killed.

A work folder is called `.mlpack-work-` and eight characters, and its process has a lock in it for as long as it lives.
Where there is no lock, because the process was killed too early or the file system has none, the folder is removed
after a day.

    lock      locked by its process; it has this name only once it is locked
    file      an output that is being written
    folder    the same, as a folder; or what is unpacked for a moment
    old       contains the output that `folder` is about to replace
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import ToolError, reason

try:
    import fcntl
except ModuleNotFoundError:  # commands that only read run on Windows, too
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE, FOLDER, OLD = "file", "folder", "old"

_PREFIX = ".mlpack-work-"
_NAME = re.compile(r"\.mlpack-work-[a-z0-9_]{8}")
_LOCK = "lock"
_DAY = 24 * 60 * 60


def lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed and return True; False if it is locked already, None where there are no locks.

    The system unlocks it when the process ends, however that happens (flock(2)).
    """
    if fcntl is None:
        message = "this command needs a system whose files can be locked, such as Linux or macOS"
        raise ToolError(message, hint="on Windows, run mlpack in WSL")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextlib.contextmanager
def beside(destination: Path) -> Iterator[Path]:
    """Create a work folder beside `destination`, on the same file system; it is removed when the block ends.

    Raises:
        OSError: The folder of `destination` cannot be written.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with _new_work_folder(destination.parent) as folder:
        yield folder


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Create an empty folder for temporary files in $TMPDIR; it is removed when the block ends."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_new_work_folder(Path(tempfile.gettempdir()))) / FOLDER
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
        for path in parent.iterdir():
            if _NAME.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    _sweep_one(path)


def is_in_work_folder(path: str) -> bool:
    """Whether `path` is a work folder or below one, and so not worth a message."""
    return _NAME.search(path) is not None


@cache
def sweep_once(parent: Path) -> None:
    """Sweep `parent` once per process: a build of many packages need not look each time."""
    sweep(parent)


@contextlib.contextmanager
def _new_work_folder(parent: Path) -> Iterator[Path]:
    sweep_once(parent)
    folder = None
    with contextlib.ExitStack() as stack:
        try:
            with signals_blocked():
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            stream = stack.enter_context((folder / "unlocked").open("wb"))
            if lock(stream.fileno()):
                (folder / "unlocked").rename(folder / _LOCK)
            yield folder
        finally:
            if folder:
                with signals_blocked():
                    shutil.rmtree(folder, ignore_errors=True)


def _sweep_one(work: Path) -> None:
    status = work.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    with contextlib.ExitStack() as stack:
        try:
            is_left = lock(stack.enter_context((work / _LOCK).open("r+b")).fileno())
        except FileNotFoundError:
            is_left = time.time() - status.st_mtime > _DAY
        if not is_left:
            return
        if (work / FOLDER).exists() and (work / OLD).exists():
            for old in (work / OLD).iterdir():
                if not os.path.lexists(work.parent / old.name):
                    old.rename(work.parent / old.name)
        shutil.rmtree(work)
