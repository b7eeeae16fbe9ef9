"""Writes beside, then renames: an output is the old one or the new one, whole, whatever happens in between.

Work in progress stands beside its destination under a hidden name and holds a lock for as long as its process
lives. One that nobody holds was left by a process that was killed, and the next write to that folder removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packager.errors import ToolError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = ".mlpack-"

# Another process may sweep in the instant between a folder and its lock, and take it for one that was left.
_TRIES = 100

# linux/fcntl.h and linux/fs.h: what renameat2(2) takes.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def file(destination: Path) -> Iterator[IO[bytes]]:
    """Give a file to write, which becomes `destination` when the block ends well and vanishes when it does not.

    Raises:
        ToolError: The folder cannot be written, or its disk is full.
    """
    with _said_clearly(destination), _beside(destination) as (folder, _):
        work = folder / "file"
        with work.open("wb") as stream:
            yield stream
        work.replace(destination)


@contextlib.contextmanager
def folder(destination: Path) -> Iterator[Path]:
    """Give an empty folder to fill, which becomes `destination` when the block ends well.

    Raises:
        ToolError: The parent cannot be written, or its disk is full.
    """
    with _said_clearly(destination), _beside(destination) as (beside, _):
        work = beside / "folder"
        work.mkdir()
        yield work
        if not destination.exists():
            work.rename(destination)
        elif not _exchange(work, destination):
            # No way to exchange two folders in one step here: for a moment there is none.
            destination.rename(beside / "old")
            work.rename(destination)


def sweep(parent: Path) -> None:
    """Remove from `parent` what killed processes left there."""
    with contextlib.suppress(OSError):
        for left in parent.glob(f"{_PREFIX}*"):
            descriptor = _lock(left)
            if descriptor is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(descriptor)


@cache
def _sweep_once(parent: Path) -> None:
    """Sweep `parent` before the first write to it: before each, ten thousand packages would take ten thousand looks."""
    sweep(parent)


@contextlib.contextmanager
def _beside(destination: Path) -> Iterator[tuple[Path, int]]:
    parent = destination.parent
    parent.mkdir(parents=True, exist_ok=True)
    _sweep_once(parent)
    claimed = None
    try:
        with _undisturbed():
            claimed = _claim(parent)
        yield claimed
    finally:
        if claimed:
            with _undisturbed():
                shutil.rmtree(claimed[0], ignore_errors=True)
                os.close(claimed[1])


def _claim(parent: Path) -> tuple[Path, int]:
    """Return a new folder in `parent`, and the descriptor that holds its lock."""
    for _ in range(_TRIES):
        work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        descriptor = _lock(work)
        if descriptor is None:
            continue
        if work.exists():
            return work, descriptor
        os.close(descriptor)
    raise ToolError(f"other processes of mlpack take away what this one begins in {parent}")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back the signals that ask the process to stop: they would interrupt the cleaning up."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _lock(work: Path) -> int | None:
    """Return a descriptor that holds the lock of the folder `work`; None when a live process holds it."""
    try:
        descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system cannot."""
    import ctypes  # noqa: PLC0415 - a slow import, for the one case of a folder that is replaced

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    done: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return done == 0


@contextlib.contextmanager
def _said_clearly(destination: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        place = f" ({error.filename})" if error.filename and Path(error.filename).parent != destination.parent else ""
        raise ToolError(f"{destination} cannot be written: {reason(error)}{place}") from None
