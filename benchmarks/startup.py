"""One package, cold, and `mlpack --help`, against the import of typer; and `verify` of it, against its renderings."""

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
    """Yield the ratios, of CPU time: start-up waits for nothing, and other programs do not lengthen it.

    `helm package` of the same files is measured beside them.
    """
    build = [*MLPACK, "build", "resnet50", "--force", "--destination", str(folder / "out")]
    commands = [IMPORT_TYPER, build, [*MLPACK, "--help"], START]
    commands += _edits(folder)
    if chart := _helm(folder):
        commands.append(chart)
    rounds = [[usage.cpu for usage in usages] for usages in in_turn(commands, folder, ROUNDS)]
    typer, *programs = zip(*rounds, strict=True)
    named = [("mlpack build resnet50", 2.3), ("mlpack --help", 1.5), ("python -c pass", None)]
    named += [("mlpack configure", 3), ("mlpack upgrade, without kubectl", 3), ("helm package", None)]
    yield Result("import typer", tuple(1_000 * seconds for seconds in typer), "ms")
    for (name, limit), values in zip(named, programs, strict=False):
        ratios = tuple(seconds / base for seconds, base in zip(values, typer, strict=True))
        yield Result(f"{name} / import typer", ratios, limit=limit)
    yield _verify(folder)


def _edits(folder: Path) -> list[list[str]]:
    """Return the commands that edit a package, and merge its edits with a newer one, without the time of kubectl."""
    build = [*MLPACK, "build", "resnet50", "--format", "dir", "--destination"]
    run([*build, str(folder / "older")], folder)
    run([*build, str(folder / "newer"), "--add", "environment.OWN=1"], folder)
    (older,), (newer,) = ((folder / name).iterdir() for name in ("older", "newer"))
    return [
        [*MLPACK, "configure", str(older), "--registry", "example.com"],
        [*MLPACK, "upgrade", str(older), str(newer), "--no-verify", "--dry-run"],
    ]


def _verify(folder: Path) -> Result:
    """Return the CPU time of `verify`, in that of the kubectl that it needs: one for each overlay."""
    run([*MLPACK, "build", "resnet50", "--format", "dir", "--destination", str(folder / "verified")], folder)
    (package,) = (folder / "verified").iterdir()
    kubectl = str(kubectls.kubectl())
    overlays = sorted((package / "quickstart/k8s/mlops").iterdir())
    renderings = [[kubectl, "kustomize", str(overlay)] for overlay in overlays]
    commands = [[*MLPACK, "verify", str(package), "--kubectl", kubectl], *renderings]
    rounds = in_turn(commands, folder, ROUNDS)
    ratios = tuple(verify.cpu / sum(usage.cpu for usage in usages) for verify, *usages in rounds)
    return Result(f"mlpack verify / its {len(overlays)} kubectl kustomize", ratios, limit=1.3)


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
