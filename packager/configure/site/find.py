"""Finds the site's file for a command: one file, the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import paths
from packager.package.layout import INVENTORY

if TYPE_CHECKING:
    from pathlib import Path

FOLDER_FILE = "mlpack-site.yaml"
"""The name of the file for a folder and all folders below it."""


def find(folder: Path, config: Path) -> Path | None:
    """Return the file of a folder, or of the nearest folder above that has one; else the user's; else None.

    A file inside a package is not the site's: it came with the package.

    Args:
        folder: The current folder, as an absolute path.
        config: The user's own file.
    """
    nearest = None
    for above in (folder, *folder.parents):
        if paths.is_file(above / INVENTORY):
            nearest = None
        elif nearest is None and paths.is_file(above / FOLDER_FILE):
            nearest = above / FOLDER_FILE
    return nearest or (config if paths.exists(config) else None)
