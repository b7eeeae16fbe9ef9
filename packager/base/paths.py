"""Opens plain files in a folder that may be hostile, within limits, and checks paths that a user names.

Errors of the system become ToolErrors.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from typing import TYPE_CHECKING

from packager.base.errors import ToolError, VerificationError, unreadable
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import BufferedReader
    from pathlib import Path


# With each of these there is nothing there, and cannot be.
_NOT_FOUND_ERRNOS = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG))


def exists(path: Path) -> bool:
    """Return whether `path`, or its target, exists. Raises ToolError if it cannot be looked up."""
    return _mode(path) != 0


def is_file(path: Path) -> bool:
    """Return whether `path`, or its target, is a plain file. Raises ToolError if it cannot be looked up."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Return whether `path`, or its target, is a folder. Raises ToolError if it cannot be looked up."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return type and permissions; 0, which nothing has, when nothing is there."""
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in _NOT_FOUND_ERRNOS:
            return 0
        raise unreadable(path, error) from None


def folders_above(files: Iterable[str]) -> set[str]:
    """Return the folders that these files are in, and those that they are in themselves; paths have `/`."""
    folders: set[str] = set()
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


# tar reads `host:file` from another machine; docker and kustomize fetch paths that begin like these.
_ADDRESS = re.compile(r"-|git@|github\.com/|[^/]*:")


def argument(path: Path) -> str:
    """Return `path` in a form that no program reads as an option or as the address of another machine."""
    return f"./{path}" if _ADDRESS.match(str(path)) else str(path)


def make_private(folder: Path) -> None:
    """Create a cache, which only its owner may change.

    Raises:
        ToolError: The path is a link, or another user's folder, or others may write to it.
        OSError: The folder cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        message = f"the cache {folder} must be a folder of yours that only you can write to"
        raise ToolError(message, hint=f"remove it, or: {shlex.join(['chmod', 'go-w', str(folder)])}")


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


# Below this much output no ratio is a bomb's.
_FREE_BYTES = 16 << 20


class Limits(Value, frozen=True):
    """The resources of this machine that an untrusted package may use."""

    size: int = 64 << 30  # bytes of all files together
    files: int = 50_000
    """The number of files and folders, with the folders that only are in paths, and the package's own."""
    ratio: int = 200
    """Bytes that come out of an archive for each one of its size. gzip's own limit is about 1,030; code and weights
    stay far below 100. The first 16 MiB are free.
    """

    def is_bomb(self, unpacked: int, packed: int) -> bool:
        """Whether an archive of the size `packed` expands so much that it must be a decompression bomb."""
        return unpacked > _FREE_BYTES and unpacked > self.ratio * packed


DEFAULT_LIMITS = Limits()
