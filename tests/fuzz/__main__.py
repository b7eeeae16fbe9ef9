"""The loop: inputs in batches, each batch in a process of its own, so that not even a crash of the parser ends it."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.fuzz.demands import broken
from tests.fuzz.inputs import Seeds, make

BATCH = 500
MEMORY = 4 << 30


def main() -> int:
    """Run the fuzzer, and return 1 when something broke a demand."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("-n", type=int, default=1_000, help="how many inputs")
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same seed makes the same inputs")
    parser.add_argument("--only", type=int, help="try this one input, and show what it says")
    asked = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="mlpack-fuzz-"))
    try:
        seeds = Seeds(work / "seeds")
        if asked.only is not None:
            return _one(asked.seed, asked.only, seeds, work, show=True)
        return _many(asked.n, asked.seed, seeds, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _many(count: int, seed: str, seeds: Seeds, work: Path) -> int:
    _say(f"seed {seed}")
    found, start, began = 0, 0, time.monotonic()
    while start < count:
        end = min(start + BATCH, count)
        reached, broke = _batch(seed, range(start, end), seeds, work)
        found += broke
        start = reached
        rate = start / (time.monotonic() - began)
        _say(f"{start} of {count} inputs, {found} finds, {rate:.0f} a second")
    return 1 if found else 0


def _batch(seed: str, numbers: range, seeds: Seeds, work: Path) -> tuple[int, int]:
    """Try `numbers` in a child process, and return which comes next, and how many finds there were."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with os.fdopen(writing, "w", buffering=1) as report:
            for number in numbers:
                report.write(f"{number}\n")
                if _one(seed, number, seeds, work):
                    report.write(f"{number} broke\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as report:
        lines = report.read().split("\n")
    _, status = os.waitpid(child, 0)
    broke = sum(line.endswith("broke") for line in lines)
    last = next((int(line) for line in reversed(lines) if line.isdecimal()), numbers.start)
    if status != 0:
        _say(f"input {last}: the process ended with status {status} (--seed {seed} --only {last})")
        return last + 1, broke + 1
    return numbers.stop, broke


def _one(seed: str, number: int, seeds: Seeds, work: Path, *, show: bool = False) -> int:
    """Try one input, and return 1 when it broke a demand."""
    folder, temporary = work / "input", work / "tmp"
    for each in (folder, temporary):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir()
    tempfile.tempdir = str(temporary)
    tried = make(Random(f"{seed}:{number}"), seeds, folder)
    demand, said = broken(tried, folder, temporary)
    tempfile.tempdir = None
    if demand or show:
        _say(f"input {number}: {demand or 'good'} (--seed {seed} --only {number})\n  {tried.argv}\n{said[-2000:]}")
    if show:
        kept = Path(tempfile.mkdtemp(prefix="mlpack-input-"))
        shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True)
        _say(f"kept in {kept}")
    return 1 if demand else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
