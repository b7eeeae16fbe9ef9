"""Returns the folders that are searched for models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.spec.catalog import bundled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def model_folders(own: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders to search for models: the user's own, then the bundled one."""
    return (*own, bundled())
