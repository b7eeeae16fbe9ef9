"""`build --all` of up to 10,000 models: time in step with their number, and no more memory for more of them."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.measure import MLPACK, Result, Usage, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNTS = (1, 10, 100, 1_000, 10_000)

SPEC = """\
name: NAME
title: A model among many
framework: mpi
image: {name: example/model, tag: "1"}
files: [run.sh]
overlays:
  single-node: {kind: Pod}
  multi-node: {kind: MPIJob, workers: 2}
environment:
  STEPS: {value: 20, description: How many steps to take.}
variants:
  - {script: run.sh}
"""


def measure(folder: Path) -> Iterator[Result]:
    """Yield the time of one more package, from each count to the next, and the memory at the end.

    Only the last step has a goal of its own: milliseconds of the machine that this runs on, as the goal says it.
    """
    models = folder / "models"
    build = [*MLPACK, "build", "--all", "--force", "--specs", str(models), "--destination", str(folder / "out")]
    usages: dict[int, Usage] = {}
    slopes: dict[int, float] = {}
    for fewer, count in pairwise((0, *COUNTS)):
        for number in range(fewer, count):
            _model(models, f"model-{number:05}")
        if not fewer:
            run(build, folder)  # fills the caches
        shutil.rmtree(folder / "out")
        usages[count] = run(build, folder)
        if fewer:
            slopes[count] = 1_000 * (usages[count].cpu - usages[fewer].cpu) / (count - fewer)
            limit = 4.0 if count == COUNTS[-1] else None
            yield Result(f"a package, of {fewer:,} to {count:,} models", (slopes[count],), "ms", limit)
    *_, few, fewer, most = COUNTS
    yield Result(f"the same, at {most:,} / at {fewer:,}", (slopes[most] / slopes[fewer],), limit=1.25)
    yield Result(f"memory at {most:,} / at {few:,} models", (usages[most].rss / usages[few].rss,), limit=1.25)
    yield Result(f"memory at {most:,} models", (usages[most].rss / 2**20,), "MiB")


def _model(models: Path, name: str) -> None:
    model = models / name
    model.mkdir(parents=True)
    (model / "spec.yaml").write_text(SPEC.replace("NAME", name), encoding="utf-8")
    (model / "run.sh").write_text("#!/bin/sh\necho rank 0\n", encoding="utf-8")
