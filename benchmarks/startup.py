"""One package, cold, and `mlpack --help`, against the import of typer; and what renders it, against its renderings."""

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
    yield from _with_kubectl(folder)


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


def _with_kubectl(folder: Path) -> Iterator[Result]:
    """Yield the CPU time of `verify`, and of an upgrade that verifies its result, beside the renderings they need.

    These are one `kubectl kustomize` for each overlay.
    """
    run([*MLPACK, "build", "resnet50", "--format", "dir", "--destination", str(folder / "verified")], folder)
    (package,) = (folder / "verified").iterdir()
    kubectl = str(kubectls.kubectl())
    overlays = sorted((package / "quickstart/k8s/mlops").iterdir())
    renderings = [[kubectl, "kustomize", str(overlay)] for overlay in overlays]
    verify = [*MLPACK, "verify", str(package), "--kubectl", kubectl]
    (older,), (newer,) = ((folder / name).iterdir() for name in ("older", "newer"))
    upgrade = [*MLPACK, "upgrade", str(older), str(newer), "--dry-run", "--kubectl", kubectl]
    rounds = [
        [usage.cpu for usage in usages]
        for usages in in_turn([IMPORT_TYPER, verify, upgrade, *renderings], folder, ROUNDS)
    ]
    count = len(overlays)
    verified = tuple(cpu / sum(rendered) for _, cpu, _, *rendered in rounds)
    yield Result(f"mlpack verify / its {count} kubectl kustomize", verified, limit=1.3)
    upgraded = tuple(cpu / sum(rendered) for _, _, cpu, *rendered in rounds)
    yield Result(f"mlpack upgrade / its {count} kubectl kustomize", upgraded)
    rest = tuple((cpu - sum(rendered)) / typer for typer, _, cpu, *rendered in rounds)
    yield Result("mlpack upgrade, less these / import typer", rest)


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
