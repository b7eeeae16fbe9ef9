"""A payload of 1 GiB in 2,000 files, half of it random, against tar; with isal and without it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from benchmarks.measure import MLPACK, PYTHON, Result, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = 2_000
SIZE = 1 << 30
ROUNDS = 1

SPEC = """\
name: large
title: A model with large files
framework: mpi
image: {name: example/model, tag: "1"}
files: [run.sh]
assets: [assets]
overlays:
  single-node: {kind: Pod}
variants:
  - {script: run.sh}
"""

# As if the extra were not installed.
WITHOUT_ISAL = "import sys; sys.modules['isal'] = None; from packager.cli import main; main()"


def measure(folder: Path) -> Iterator[Result]:
    """Yield ratios of wall time, in which threads count for what they are there for, and peaks of memory."""
    model = folder / "large"
    _write(model)
    options = ["build", str(model), "--force", "--destination", str(folder / "out")]
    inputs = ["--directory", str(model), "assets"]
    commands = [
        [*MLPACK, *options],
        ["tar", "czf", str(folder / "out.tar.gz"), *inputs],
        ["tar", "cf", str(folder / "out.tar"), *inputs],
        [PYTHON, "-c", WITHOUT_ISAL, *options],
    ]
    rounds = in_turn(commands, folder, ROUNDS, warm_up=False)  # start-up is nothing beside the rest
    for name, column in (("mlpack build", 0), ("without isal", 3)):
        limits = (0.12, 2.5) if column == 0 else (None, None)
        for other, base, limit in zip(("tar czf", "tar cf"), (1, 2), limits, strict=True):
            ratios = tuple(usages[column].wall / usages[base].wall for usages in rounds)
            yield Result(f"1 GiB: {name} / {other}", ratios, limit=limit)
        yield Result(f"1 GiB: memory, {name}", tuple(usages[column].rss / 2**20 for usages in rounds), "MiB", 64)
    yield Result("1 GiB: tar czf", tuple(usages[1].wall for usages in rounds), "s")
    yield Result("1 GiB: mlpack build", tuple(usages[0].wall for usages in rounds), "s")


def _write(model: Path) -> None:
    """Write the model: its even files are random, its odd ones text, all the same in every run."""
    assets = model / "assets"
    assets.mkdir(parents=True)
    (model / "spec.yaml").write_text(SPEC, encoding="utf-8")
    (model / "run.sh").write_text("#!/bin/sh\necho rank 0\n", encoding="utf-8")
    source = random.Random(1)  # noqa: S311 - noise, not a secret
    numbers = [f"{source.randrange(1 << 30):x}" for _ in range(5_000)]
    for number in range(FILES):
        size = SIZE // FILES
        content = (" ".join(source.choices(numbers, k=size // 6)).encode() * 2)[:size] if number % 2 else b""
        (assets / f"{number:04}.bin").write_bytes(content or source.randbytes(size))
