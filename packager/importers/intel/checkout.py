"""Finds the checkout of Intel's Model Zoo that a spec belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import SpecError
from packager.base.values import Value

if TYPE_CHECKING:
    from pathlib import Path

_SPECS = "tools/docker/specs"


class Checkout(Value, frozen=True):
    """A checkout of the zoo: its folder, and what messages put before the path of a file in it."""

    root: Path
    shown: str


def checkout(path: Path, models: Path | None, name: str) -> Checkout:
    """Return the checkout that the spec at `path` is in, or the one that is given.

    Args:
        path: The spec.
        models: The checkout, as the user names it; None for the folder above the spec's tools/docker/specs.
        name: How messages name the spec.

    Raises:
        SpecError: The spec is in no such folder.
    """
    if models is not None:
        return Checkout(models.resolve(), f"{models}/")
    real = path.resolve()
    for folder in real.parents:
        if real.is_relative_to(folder / _SPECS):
            above, specs, _ = name.rpartition(f"{_SPECS}/")
            return Checkout(folder, above if specs else "")
    raise SpecError(f"{name} is not in a folder {_SPECS}", hint="--models-dir names the checkout of the zoo")
