"""Mutated packages, as folders and as archives, verified on the command line."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from tests.fuzz import inputs
from tests.fuzz.demands import broken

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from tests.fuzz.runner import Judge

    Make = Callable[[Random, inputs.Seeds, Path], inputs.Input]


def subject(work: Path) -> Judge:
    """Return the judge of mutated packages."""
    return by_command(inputs.package, inputs.Seeds(work / "seeds"), work)


def by_command(make: Make, seeds: inputs.Seeds, work: Path) -> Judge:
    """Return a judge that runs the inputs of `make` on the command line."""

    # A verdict that `verify` remembers is no write of the input.
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")

    def judge(random: Random) -> str | None:
        folder, temporary = work / "input", work / "tmp"
        for path in (folder, temporary):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        tempfile.tempdir = str(temporary)
        try:
            demand, output = broken(make(random, seeds, folder), folder, temporary)
        finally:
            tempfile.tempdir = None
        return demand and f"{demand}\n{output[-500:]}"

    return judge
