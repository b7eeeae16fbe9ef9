"""Finds the checkout of Intel's Model Zoo that a spec belongs to. Tests: modelspec/importers/intel/test_read.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import SpecError
from packager.base.values import Value

if TYPE_CHECKING:
    from pathlib import Path

_SPECS = "tools/docker/specs"


class Checkout(Value, frozen=True):
    """A checkout of the zoo: its folder, and the prefix of its files' paths in messages."""

    root: Path
    shown: str


def checkout(path: Path, models: Path | None, name: str) -> Checkout:
    """Return the checkout `models`, or the one that contains the spec at `path`.

    Args:
        path: The spec.
        models: The checkout, as the user names it; None for the folder above the spec's tools/docker/specs.
        name: The name of the spec in messages.

    Raises:
        SpecError: The spec is not in a checkout's tools/docker/specs.
    """
    if models is not None:
        return Checkout(models.resolve(), f"{models}/")
    real = path.resolve()
    for folder in real.parents:
        if real.is_relative_to(folder / _SPECS):
            above, specs, _ = name.rpartition(f"{_SPECS}/")
            return Checkout(folder, above if specs else "")
    raise SpecError(f"{name} is not in a folder {_SPECS}", hint="--models-dir names the checkout of the zoo")
