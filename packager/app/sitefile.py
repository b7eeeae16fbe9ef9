"""Finds and reads the site's file for a command. Tests: app/test_site.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.configure.site import find

if TYPE_CHECKING:
    from pathlib import Path

    from packager.configure.site.read import SiteSettings


def nearest(folder: Path, config: Path) -> SiteSettings | None:
    """Return the defaults of the nearest file; None without one. `site.find.find` explains the arguments.

    Raises:
        ToolError: The file cannot be read.
        UsageError: The file is not valid; `problems` contains all its problems.
    """
    path = find.find(folder, config)
    return None if path is None else read(path)


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
