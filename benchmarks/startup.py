"""One package, cold, and `mlpack --help`, against the import of typer; beside them `helm package` of the same files."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.measure import IMPORT_TYPER, MLPACK, START, Result, in_turn, run
from tests import kubectls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 15


def measure(folder: Path) -> Iterator[Result]:
    """Yield the ratios, of CPU time: start-up waits for nothing, and other programs do not lengthen it."""
    build = [*MLPACK, "build", "resnet50", "--force", "--destination", str(folder / "out")]
    commands = [IMPORT_TYPER, build, [*MLPACK, "--help"], START]
    if chart := _helm(folder):
        commands.append(chart)
    rounds = [[usage.cpu for usage in usages] for usages in in_turn(commands, folder, ROUNDS)]
    typer, *programs = zip(*rounds, strict=True)
    named = [("mlpack build resnet50", 2.5), ("mlpack --help", 1.5), ("python -c pass", None), ("helm package", None)]
    yield Result("import typer", tuple(1_000 * seconds for seconds in typer), "ms")
    for (name, limit), values in zip(named, programs, strict=False):
        ratios = tuple(seconds / base for seconds, base in zip(values, typer, strict=True))
        yield Result(f"{name} / import typer", ratios, limit=limit)


def _helm(folder: Path) -> list[str] | None:
    """Return the command that packs a chart with the package's files; None where helm is not to be had."""
    try:
        helm = kubectls.helm()
    except (kubectls.UnavailableError, subprocess.CalledProcessError) as error:
        print(f"helm is left out: {error}", file=sys.stderr)
        return None
    run([*MLPACK, "build", "resnet50", "--format", "dir", "--destination", str(folder / "chart")], folder)
    (chart,) = (folder / "chart").iterdir()
    text = f"apiVersion: v2\nname: {chart.name}\nversion: 1.0.0\n"
    (chart / "Chart.yaml").write_text(text, encoding="utf-8")
    return [str(helm), "package", str(chart), "--destination", str(folder)]
