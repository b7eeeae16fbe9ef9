"""Finds and reads the site's file for a command. Tests: app/test_site.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.site import find

if TYPE_CHECKING:
    from pathlib import Path

    from packager.site.read import SiteSettings


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
    from packager.site.read import read as read_file  # a command without a site's file does not pay for it

    return read_file(path)
