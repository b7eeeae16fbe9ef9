"""Creates, shows and finds a site's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import atomic
from packager.base.errors import ToolError, reason
from packager.configure.site import labels
from packager.package.opened import opened
from packager.site import example
from packager.site.defaults import defaults
from packager.site.find import FOLDER_FILE, find
from packager.site.read import parsed, read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.site.defaults import SetValue
    from packager.site.read import SiteSettings

__all__ = ["FOLDER_FILE", "QUESTIONS", "ShownSite", "create", "find", "read", "show"]

QUESTIONS = example.QUESTIONS


@dataclass(frozen=True, slots=True)
class ShownSite:
    """The values that a site sets.

    Attributes:
        path: The site's file.
        package: The name of the package that it is shown for; None for every package.
        entries: The values that are in effect.
        overrides: The number of overrides in the file that were not taken into account; 0 for a package.
    """

    path: Path
    package: str | None
    entries: tuple[SetValue, ...]
    overrides: int

    def as_json(self) -> dict[str, Any]:
        """Return the values for `-o json`."""
        return {
            "file": str(self.path),
            "package": self.package,
            "values": [entry.as_json() for entry in self.entries],
            "overrides": self.overrides,
        }


def create(path: Path, values: Mapping[str, str], *, force: bool) -> None:
    """Write a new, commented file; the folder is created.

    Args:
        path: The file.
        values: Values for some of QUESTIONS.
        force: Whether to replace an existing file.

    Raises:
        UsageError: The file exists, and `force` is not set; or a value is invalid.
        ToolError: The file cannot be written.
    """
    content = example.text(values).encode()
    parsed(path, content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{path.parent} cannot be created: {reason(error)}") from None
    with atomic.file(path, exists_hint=None if force else "--force replaces it") as stream:
        stream.write(content)


def show(site: SiteSettings, package: Path | None) -> ShownSite:
    """Return the values that a site sets for a package, or for every package.

    Raises:
        UsageError: There is no such package.
        VerificationError: The path is not a package.
        ToolError: The package cannot be read.
    """
    if package is None:
        return ShownSite(site.path, None, defaults(site, None).entries, len(site.config.overrides))
    with opened(package) as opened_package:
        return ShownSite(site.path, opened_package.name, defaults(site, labels(opened_package)).entries, 0)
