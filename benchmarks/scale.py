"""A JobSet of a scheduler, 100 servers and 1,000 workers: built, then rendered and verified, each in under a second.

What counts is the time of processors: of `build`, and of `verify`, which has kubectl render the overlay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.measure import MLPACK, Result, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS = 5

SPEC = """\
name: large
title: A large JobSet
framework: mxnet
image: {name: example/model, tag: "1"}
files: [run.sh]
overlays:
  servers:
    kind: JobSet
    rendezvous: dmlc
    roles: {scheduler: {}, server: {replicas: 100}, worker: {replicas: 1000}}
variants:
  - {script: run.sh}
"""


def measure(folder: Path) -> Iterator[Result]:
    """Yield how long it takes to build the package, and to render and verify it."""
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    (folder / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    build = [*MLPACK, "build", str(folder / "spec.yaml"), "--force", "--format", "dir", "--destination", str(folder)]
    for what, argv in (("built", build), ("rendered and verified", [*MLPACK, "verify", str(folder / "large")])):
        run(argv, folder)  # fills the caches
        times = tuple(run(argv, folder).cpu for _ in range(RUNS))
        yield Result(f"a JobSet of 1,101 pods, {what}", times, "s", 1.0)
