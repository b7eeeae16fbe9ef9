"""Reads environment variables and the build command from the spec that a package contains.

The values are used exactly as written, with quotes and spaces: in YAML, a quote in a value is intended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.package.layout import SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.package.opened import Package

_ENVIRONMENT = "environment"


def values(package: Package) -> frozenset[tuple[str, str]]:
    """Return each key with each value that it is given; nothing, when the package's spec is no YAML.

    Raises:
        ToolError: The spec cannot be read.
    """
    return frozenset((*_of_spec(package), *_of_settings(package)))


def _of_spec(package: Package) -> Iterator[tuple[str, str]]:
    path = package.folder / SPEC
    if path.is_symlink() or not path.is_file():
        return
    document, _ = yamlio.load(package.reader.read(SPEC, yamlio.MAX_BYTES), package.shown(SPEC))
    spec = document.data if isinstance(document.data, dict) else {}
    variants = spec.get("variants")
    overlays = spec.get("overlays")
    parts = [
        *(variants if isinstance(variants, list) else ()),
        *(overlays.values() if isinstance(overlays, dict) else ()),
    ]
    for holder in (spec, *parts):
        environment = holder.get(_ENVIRONMENT) if isinstance(holder, dict) else None
        for key, entry in environment.items() if isinstance(environment, dict) else ():
            value = entry.get("value") if isinstance(entry, dict) else entry
            if isinstance(value, str):
                yield key, value


def _of_settings(package: Package) -> Iterator[tuple[str, str]]:
    """Yield what `--set environment.KEY=VALUE` gave when the package was built."""
    about: Any = package.inventory.get("spec")
    settings = about.get("set") if isinstance(about, dict) else None
    for setting in settings if isinstance(settings, list) else ():
        path, _, value = str(setting).partition("=")
        steps = path.split(".")
        if _ENVIRONMENT in steps[:-1]:
            yield steps[-1] if steps[-1] != "value" else steps[-2], value
