"""Opens plain files in a folder that may be hostile: follows no links, never blocks. Tests: cli/test_opening.py."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from packager.base.errors import VerificationError, unreadable

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Opening a pipe without a writer would block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# What is a link, or no folder, on the way; a socket, or a device without a driver, at the end of it.
_NOT_PLAIN_ERRNOS = frozenset((errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENODEV))


class NotPlainError(OSError):
    """A path that is not a plain file, or leads through something other than folders."""


def open_below(folder: Path, path: str) -> BufferedReader:
    """Open the file `path` below `folder`, to which a link may lead.

    Raises:
        NotPlainError: The path is a link, a folder, a pipe or a device, or a link is on the way.
        OSError: The file cannot be opened.
    """
    *parents, name = path.split("/")
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            child = os.open(parent, _FOLDER, dir_fd=current)
            os.close(current)
            current = child
        file = os.open(name, _FILE, dir_fd=current)
    except OSError as error:
        if error.errno in _NOT_PLAIN_ERRNOS:
            raise NotPlainError(error.errno, "not a plain file") from None
        raise
    finally:
        os.close(current)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise NotPlainError(errno.EISDIR, "is a directory" if stat.S_ISDIR(mode) else "not a plain file")
    return os.fdopen(file, "rb")


def read_start(folder: Path, path: str, shown: str, size: int) -> bytes:
    """Return the first `size` bytes of the file `path` below `folder`, which messages call `shown`."""
    try:
        with open_below(folder, path) as stream:
            return stream.read(size)
    except NotPlainError:
        raise VerificationError(f"{shown} is not a plain file") from None
    except OSError as error:
        raise unreadable(shown, error) from None


def read(folder: Path, path: str, shown: str, max_bytes: int) -> bytes:
    """Return the content of the file `path` below `folder`, which messages call `shown`."""
    content = read_start(folder, path, shown, max_bytes + 1)
    if len(content) > max_bytes:
        raise VerificationError(f"{shown} is larger than {max_bytes >> 10:,} KiB")
    return content
