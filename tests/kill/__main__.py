"""Kills builds, in turn of each scenario, and says how many left something that they must not."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.kill import SCENARIOS, Trial


def main() -> int:
    """Run the trials, and return 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("-n", type=int, default=1_000, help="how many builds to kill")
    parser.add_argument("--seed", default=str(time.time_ns()))
    asked = parser.parse_args()
    random = Random(asked.seed)
    failures = 0
    work = Path(tempfile.mkdtemp(prefix="mlpack-kill-"))
    try:
        trials = [(scenario, Trial(scenario, work / str(index))) for index, scenario in enumerate(SCENARIOS)]
        for number in range(asked.n):
            scenario, trial = trials[number % len(trials)]
            if wrong := trial.kill(random):
                failures += 1
                sys.stderr.write(f"{scenario.name}, kill {number} of seed {asked.seed}: {wrong}\n")
    finally:
        shutil.rmtree(work)
    sys.stderr.write(f"{asked.n} builds killed (seed {asked.seed}), {failures} left what they must not\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
