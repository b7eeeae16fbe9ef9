"""Fuzzes subjects one after the other, and prints the inputs that fail; the exit code is then 1."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import runner
from tests.fuzz.subjects import SUBJECTS

# In memory, if the system has such a folder: every input is a few files that are deleted soon.
_MEMORY = Path("/dev/shm")


def main() -> int:
    """Run the fuzzer, and return the exit code: 1 if an input violates a demand."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"one of {', '.join(SUBJECTS)}; all without it")
    parser.add_argument("-n", type=int, default=1_000, help="how many inputs of each")
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same seed makes the same inputs")
    parser.add_argument("--only", type=int, help="try this one input, and keep the folder that it was tried in")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="how many processes")
    asked = parser.parse_args()
    if unknown := [name for name in asked.subjects if name not in SUBJECTS]:
        parser.error(f"there is no subject {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    work = Path(tempfile.mkdtemp(prefix="mlpack-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    numbers = range(asked.n) if asked.only is None else range(asked.only, asked.only + 1)
    count = 0
    for name in asked.subjects or SUBJECTS:
        finds = runner.run(SUBJECTS[name], numbers, asked.seed, work / name, workers=asked.workers)
        count += len(finds)
        sys.stderr.write(f"{name}: {len(numbers)} inputs of the seed {asked.seed}; {len(finds)} finds\n")
        for number, wrong in sorted(finds.items())[:20]:
            sys.stderr.write(f"  python -m tests.fuzz {name} --seed {asked.seed} --only {number}\n{wrong}\n")
    if asked.only is None:
        shutil.rmtree(work, ignore_errors=True)
    else:
        sys.stderr.write(f"kept in {work}\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
