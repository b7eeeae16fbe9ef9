"""Kills runs of each scenario at random moments, and says how many left what they must not."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.kill import SCENARIOS, Trial

# In memory, where the system has such a place: every run makes a folder anew.
_MEMORY = Path("/dev/shm")


def main() -> int:
    """Run the trials, and return 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="its name; all without it")
    parser.add_argument("-n", type=int, default=1_000, help="how many runs of each to kill before their ends")
    parser.add_argument("--seed", default=str(time.time_ns()))
    memory = _MEMORY if _MEMORY.is_dir() else None
    parser.add_argument("--folder", type=Path, default=memory, help="where the runs write, such as a folder on NFS")
    parser.add_argument("--repository", action="store_true", help="make each folder of a package a Git repository")
    asked = parser.parse_args()
    names = asked.scenarios or [scenario.name for scenario in SCENARIOS]
    if unknown := set(names) - {scenario.name for scenario in SCENARIOS}:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in SCENARIOS)}")
    work = Path(tempfile.mkdtemp(prefix="mlpack-kill-", dir=asked.folder))
    failures = 0
    print(f"seed {asked.seed}\n{'':28}{'runs':>8}{'killed':>9}{'left work':>11}{'journal':>9}{'wrong':>7}")
    try:
        for scenario in (scenario for scenario in SCENARIOS if scenario.name in names):
            trial = Trial(scenario, work / scenario.name.replace(" ", "_"), has_repository=asked.repository)
            random = Random(f"{asked.seed}:{scenario.name}")
            count, runs = trial.count, 0
            while count.killed < asked.n:
                runs += 1
                if wrong := trial.kill(random):
                    print(f"{scenario.name}, run {runs}: {wrong}", file=sys.stderr)
            failures += len(count.wrong)
            print(
                f"{scenario.name:28}{runs:8}{count.killed:9}{count.left:11}{count.pending:9}{len(count.wrong):7}",
                flush=True,
            )
    finally:
        shutil.rmtree(work)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
