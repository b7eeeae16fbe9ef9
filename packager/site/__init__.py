"""Finds the file with a site's defaults. Tests: site/test_read.py."""

from pathlib import Path

from packager.base import paths

_FOLDER_FILE = "mlpack-site.yaml"
"""The name of the file for a folder and all folders below it."""

_INVENTORY = "manifest.json"  # equals layout.INVENTORY; a command without a site's file imports nothing for it


def find(folder: Path, config: Path) -> Path | None:
    """Return the file of an absolute folder, or of the nearest one above that has one; else the user's `config`.

    A file inside a package is not the site's: it came with the package.
    """
    found = None
    for above in (folder, *folder.parents):
        if paths.is_file(above / _INVENTORY):
            found = None
        elif found is None and paths.is_file(above / _FOLDER_FILE):
            found = above / _FOLDER_FILE
    return found or (config if paths.exists(config) else None)
