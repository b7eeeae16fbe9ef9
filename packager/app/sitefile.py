"""Finds and reads the site's file for a command: one file, the nearest. Tests: app/test_site.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import paths
from packager.package.layout import INVENTORY

if TYPE_CHECKING:
    from pathlib import Path

    from packager.configure.site.read import SiteSettings

_FOLDER_FILE = "mlpack-site.yaml"
"""The name of the file for a folder and all folders below it."""


def nearest(folder: Path, config: Path) -> SiteSettings | None:
    """Return the defaults of the nearest file; None without one. `find` explains the arguments.

    Raises:
        ToolError: The file cannot be read.
        UsageError: The file is not valid; `problems` contains all its problems.
    """
    path = find(folder, config)
    return None if path is None else read(path)


def find(folder: Path, config: Path) -> Path | None:
    """Return the file of an absolute folder, or of the nearest one above that has one; else the user's `config`.

    A file inside a package is not the site's: it came with the package.
    """
    nearest = None
    for above in (folder, *folder.parents):
        if paths.is_file(above / INVENTORY):
            nearest = None
        elif nearest is None and paths.is_file(above / _FOLDER_FILE):
            nearest = above / _FOLDER_FILE
    return nearest or (config if paths.exists(config) else None)


def read(path: Path) -> SiteSettings:
    """Return the defaults in a file. Raises as `nearest`."""
    from packager.configure.site.read import read as read_file  # a command without a site's file does not pay for it

    return read_file(path)


def permitted(path: Path) -> tuple[str, ...]:
    """Return the words that permit the annotations which the user's own file sets and no package has by itself.

    A file beside a package may have come with it, so this is for the user's own file only. Raises as `nearest`.
    """
    from packager.configure.site.read import own_annotations

    return own_annotations(read(path))
