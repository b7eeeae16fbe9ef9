"""Creates the folders of mlpack's caches, which only their owner may change. Tests: app/test_downloads.py."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING

from packager.base.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path


def make(folder: Path) -> None:
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
