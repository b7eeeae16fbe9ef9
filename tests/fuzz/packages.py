"""Mutated packages, verified on the command line."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.fuzz import inputs
from tests.fuzz.demands import broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.fuzz.runner import Judge


def subject(work: Path) -> Judge:
    """Return the judge of mutated packages."""
    seeds = inputs.Seeds(work / "seeds")
    # A verdict that `verify` remembers is no write of the input.
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")

    def judge(random: Random) -> str | None:
        with emptied(work) as (folder, temporary):
            demand, output = broken(inputs.package(random, seeds, folder), folder, temporary)
        return demand and f"{demand}\n{output[-500:]}"

    return judge


@contextmanager
def emptied(work: Path) -> Iterator[tuple[Path, Path]]:
    """Yield two empty folders: for an input, and for the temporary files of this process, which it must remove."""
    folder, temporary = work / "input", work / "tmp"
    for path in (folder, temporary):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    tempfile.tempdir = str(temporary)
    try:
        yield folder, temporary
        assert not list(temporary.iterdir()), "temporary files were left"
    finally:
        tempfile.tempdir = None
