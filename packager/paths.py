"""What is at a path that a user names; `pathlib` answers with a traceback when the system would not look."""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING

from packager.errors import unreadable

if TYPE_CHECKING:
    from pathlib import Path

# With each of these there is nothing there, and cannot be.
_NOTHING = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG))


def exists(path: Path) -> bool:
    """Whether anything is at `path`, or where a link there leads. Raises ToolError when that cannot be told."""
    return _mode(path) != 0


def is_file(path: Path) -> bool:
    """Whether a plain file is at `path`, or where a link there leads. Raises ToolError when that cannot be told."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a folder is at `path`, or where a link there leads. Raises ToolError when that cannot be told."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return type and permissions; 0, which nothing has, when nothing is there."""
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in _NOTHING:
            return 0
        raise unreadable(path, error) from None
