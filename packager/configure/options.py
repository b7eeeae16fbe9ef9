"""Lists the options of a package: those that it has, and those that can be added to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.values import Value, as_dict
from packager.configure import settings
from packager.package import layout
from packager.package.opened import opened
from packager.package.options import OPTIONS, VARIABLES, Option

if TYPE_CHECKING:
    from pathlib import Path

    from packager.kubernetes.podsecurity import Level
    from packager.package.opened import Package


class PackageOption(Value, frozen=True):
    """One option that fits a package."""

    name: str
    summary: str
    in_package: bool  # else `mlpack configure --with NAME` adds it
    on: tuple[str, ...]  # the overlays in which it is on
    keys: tuple[str, ...]  # of site.env
    pod_security: Level  # the strictest level that a workload reaches with it


class PackageOptions(Value, frozen=True):
    """The options that fit a package, in the order in which overlays list them."""

    package: str
    options: tuple[PackageOption, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"package": self.package, "options": [as_dict(option) for option in self.options]}


def options(path: Path) -> PackageOptions:
    """Return the options of the package at `path`, a folder or an archive."""
    with opened(path) as package:
        files = settings.Files(package)
        switches = {overlay: settings.options(files, overlay) for overlay in package.overlays}
        present = _components(package)
        fitting = present | package.inventory.get("options", {}).keys()
        texts = [files.read(layout.env(overlay)) for overlay in package.overlays]
        variables = {line.key for text in texts for line in envfile.lines(text)}
        return PackageOptions(
            package.name,
            tuple(
                PackageOption(
                    option.name,
                    option.summary,
                    option.name in present,
                    tuple(overlay for overlay, names in switches.items() if names.get(option.name)),
                    _keys(option, variables),
                    option.level,
                )
                for option in OPTIONS
                if option.name in fitting
            ),
        )


def _components(package: Package) -> set[str]:
    """Return the names of the components in a package: those that it was built with, and those that were added."""
    names = {layout.component_of(path) for path in package.inventory["files"]}
    names |= {folder.name for folder in package.folder.glob(f"{layout.COMMON}/*") if folder.is_dir()}
    return {name for name in names if name}


def _keys(option: Option, variables: set[str]) -> tuple[str, ...]:
    """Return the keys of `site.env` that an option reads in a package whose mlops.env has these variables."""
    return tuple(key.name for key in option.keys if key.only not in VARIABLES or VARIABLES[key.only] in variables)
