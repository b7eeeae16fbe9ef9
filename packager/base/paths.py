"""Checks paths that a user names, with ToolErrors in place of OSErrors, and makes the folders of caches."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from typing import TYPE_CHECKING

from packager.base.errors import ToolError, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable
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
