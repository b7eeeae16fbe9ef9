"""Lists the overlays of a package, and determines the default one. Tests: package/test_opened.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.package.tree import Entry

DEFAULT_OVERLAY = "multi-node"
"""The overlay to use if none is named, in a package that has it."""


def overlay_names(entries: Sequence[Entry], *, has_workspace: bool = False) -> tuple[str, ...]:
    """Return the names of the overlays with workloads: the default one first.

    Args:
        entries: The files of the package.
        has_workspace: Whether the overlay `workspace` is the one that only creates a claim.
    """
    names = [name for entry in entries if (name := layout.overlay_of(entry.path))]
    if has_workspace:
        names = [name for name in names if name != layout.WORKSPACE]
    return tuple(sorted(names, key=lambda name: (name != DEFAULT_OVERLAY, name)))
