"""Measures, and prints a table: `python -m benchmarks [NAME ...]`. A goal that is missed is said, and is no failure."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import registry, running, scale, service, startup
from hatch_build import compile_templates

if TYPE_CHECKING:
    from benchmarks.measure import Result

BENCHMARKS = {
    "startup": startup.measure,
    "scale": scale.measure,
    "service": service.measure,
    "running": running.measure,
    "registry": registry.measure,
}


def main() -> None:
    """Run the benchmarks that are named, or all, and print each result as it comes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all without it")
    parser.add_argument("--folder", type=Path, help="where to work; registry needs 8 GiB there")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - BENCHMARKS.keys():
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    compile_templates(Path(__file__).resolve().parent.parent)  # as an installation has them
    one, five, fifteen = os.getloadavg()
    print(f"{os.cpu_count()} processors; load {one:.1f}, {five:.1f}, {fifteen:.1f} (1, 5, 15 minutes)")
    print(f"{'':44}{'median':>12}  {'from':>8} {'to':>8}  goal", flush=True)
    for name in arguments.names or BENCHMARKS:
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="mlpack-bench-") as folder:
            for result in BENCHMARKS[name](Path(folder)):
                print(_row(result), flush=True)


def _row(result: Result) -> str:
    goal = "" if result.limit is None else f"at most {result.limit:g}: {'met' if result.met else 'MISSED'}"
    spread = f"{min(result.values):8.2f} {max(result.values):8.2f}" if len(result.values) > 1 else " " * 17
    return f"{result.what:44}{result.median:8.2f} {result.unit:3}  {spread}  {goal}".rstrip()


if __name__ == "__main__":
    main()
