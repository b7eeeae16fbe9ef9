"""Writes an output completely or not at all: into a temporary path first, which is then renamed.

If several processes write the same output and may not replace it, one succeeds and the others get an error.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import ToolError, UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# linux/fcntl.h and linux/fs.h: what renameat2(2) takes.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def file(destination: Path, *, exists_hint: str | None = None) -> Iterator[IO[bytes]]:
    """Yield a file to write, which becomes `destination` when the block succeeds, and is deleted when it fails.

    `exists_hint` is the user's way to replace an existing output, which is kept; with None it is replaced.
    """
    with _work_folder(destination, exists_hint, stat.S_ISREG, "a plain file") as folder:
        work = folder / workfolder.FILE
        with work.open("wb") as stream:
            yield stream
        if exists_hint is None:
            work.replace(destination)
            return
        try:
            os.link(work, destination)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: an empty file takes the name first
            os.close(os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
            work.replace(destination)


@contextlib.contextmanager
def folder(destination: Path, *, exists_hint: str | None = None, kept_folders: Sequence[str] = ()) -> Iterator[Path]:
    """Give an empty folder to fill, which becomes `destination` when the block ends well.

    Args:
        destination: A folder that is replaced, or a link to one, or nothing yet. Whether all that is in it may be lost
            is for the caller to know.
        exists_hint: The user's way to replace an existing output, which is kept; with None it is replaced.
        kept_folders: The names of folders in the old folder and in the new one: the old ones take the places of the new
            ones afterwards, where the system can do that, with what programs have written into them meanwhile.
    """
    with _work_folder(destination, exists_hint, stat.S_ISDIR, "a folder") as beside:
        work = beside / workfolder.FOLDER
        work.mkdir()
        yield work
        has_exchanged = _move(work, destination, beside / workfolder.OLD, replace=exists_hint is None)
        for name in kept_folders if has_exchanged else ():
            _exchange(work / name, destination / name)


@contextlib.contextmanager
def _work_folder(
    destination: Path, exists_hint: str | None, is_kind: Callable[[int], bool], kind: str
) -> Iterator[Path]:
    """Give a folder for work beside the destination, which is refused before any work if it may not be replaced."""
    workfolder.sweep_once(destination.parent)
    check_absent(destination, exists_hint)
    with contextlib.suppress(OSError):  # nothing, or a link to nothing; other errors are reported when it is written
        if not is_kind(destination.stat().st_mode):
            raise UsageError(f"{destination} is not {kind} and was left unchanged", hint="choose another destination")
    try:
        with workfolder.beside(destination) as beside:
            yield beside
    except BrokenPipeError:
        raise
    except OSError as error:
        if exists_hint is not None and os.path.lexists(destination):  # another process was faster
            raise _already_exists(destination, exists_hint) from None
        name = error.filename or ""
        is_elsewhere = name and Path(name).parent != destination.parent and not workfolder.is_in_work_folder(name)
        raise ToolError(
            f"{destination} cannot be written: {reason(error)}{f' ({name})' if is_elsewhere else ''}"
        ) from None


def check_absent(destination: Path, exists_hint: str | None) -> None:
    """Refuse a destination that exists, before there is work for it. Raises UsageError unless the hint is None."""
    if exists_hint is not None and os.path.lexists(destination):
        raise _already_exists(destination, exists_hint)


def _already_exists(destination: Path, exists_hint: str) -> UsageError:
    return UsageError(f"{destination} already exists and was left unchanged", hint=exists_hint)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, by renameat2(2); False where the system cannot."""
    import ctypes  # noqa: PLC0415 - a slow import that few runs need

    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    result: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return result == 0


def _move(work: Path, destination: Path, old: Path, *, replace: bool) -> bool:
    """Move a folder to its destination; return True if it was exchanged with the one there."""
    if not replace or not os.path.lexists(destination):
        work.rename(destination)  # which fails where there is more than an empty folder
        return False
    if not _exchange(work, destination):
        # Two folders cannot be exchanged in one step here: for a moment there is none. A process that is killed then
        # leaves the old one, which the next sweep puts back.
        old.mkdir()
        with workfolder.signals_blocked():
            destination.rename(old / destination.name)
            try:
                work.rename(destination)
            except OSError:
                (old / destination.name).rename(destination)
                raise
        return False
    return True
