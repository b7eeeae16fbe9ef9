"""Fuzzes subjects one after the other, and prints the inputs that fail; the exit code is then 1."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

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
    names = asked.subjects or list(SUBJECTS)
    work = Path(tempfile.mkdtemp(prefix="mlpack-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    _say(f"seed {asked.seed}")
    if asked.only is not None:
        return max(_one(name, asked.seed, asked.only, work / name) for name in names)
    try:
        return max(_many(name, asked.n, asked.seed, work / name, asked.workers) for name in names)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _one(name: str, seed: str, number: int, folder: Path) -> int:
    folder.mkdir()
    wrong = runner.tried(SUBJECTS[name](folder), Random(f"{seed}:{number}"))
    _say(f"{name}, input {number}: {wrong or 'good'}\nkept in {folder}")
    return 1 if wrong else 0


def _many(name: str, count: int, seed: str, folder: Path, workers: int) -> int:
    outcome = runner.run(SUBJECTS[name], count, seed, folder, workers=workers, say=lambda line: _say(f"{name}: {line}"))
    rate = outcome.tried / outcome.seconds
    _say(f"{name}: {outcome.tried} inputs in {outcome.seconds:.0f} s, {rate:.0f} a second; {len(outcome.finds)} finds")
    for number in sorted(outcome.finds)[:20]:
        _say(f"  python -m tests.fuzz {name} --seed {seed} --only {number}")
    return 1 if outcome.finds else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
