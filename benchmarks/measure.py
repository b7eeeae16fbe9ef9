"""Runs programs and says what they took of the machine; compares two of them, in turn.

Every program runs with a folder of bytecode of its own, filled by a first run that does not count: as an installation
has it, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
MLPACK = [PYTHON, "-m", "packager"]
IMPORT_TYPER = [PYTHON, "-c", "import typer"]
START = [PYTHON, "-c", "pass"]

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that one run used.

    Attributes:
        wall: Seconds from start to end.
        cpu: Seconds of all its threads and children, in user mode and in the kernel.
        rss: The most memory it held, in bytes; of several processes, the largest one's. A program begins as a copy
            of this one, whose own memory is therefore the least that can be seen.
    """

    wall: float
    cpu: float
    rss: int


@dataclass(frozen=True, slots=True)
class Result:
    """A row of the table.

    Attributes:
        what: The measured quantity.
        values: Each measurement.
        unit: The unit of the values; empty for a ratio.
        limit: The goal: at most this much; None for a number without a goal.
    """

    what: str
    values: tuple[float, ...]
    unit: str = ""
    limit: float | None = None

    @property
    def median(self) -> float:
        """The value that counts: neither one slow run nor one lucky run."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        """Whether the goal is reached; true where there is none."""
        return self.limit is None or self.median <= self.limit


def run(argv: list[str], caches: Path, *, quiet: bool = True, **variables: str) -> Usage:
    """Run `argv` to its end; a failure ends the benchmark.

    Args:
        argv: The program and its arguments.
        caches: The folder for caches, which a second run finds again.
        quiet: Whether stderr is shown only if it fails; stdout never is.
        variables: More for its environment.
    """
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(caches / "bytecode")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        begin = time.perf_counter()
        # Without an input: a program that asks a question would wait for ever.
        process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors if quiet else None,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{errors.read()}{' '.join(argv)}: exit code {process.returncode}")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def cpu_seconds(process: int) -> float:
    """Return how many seconds of CPU time a process and those that it has started have taken."""
    seconds = 0.0
    for number in with_children(process):
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def with_children(process: int) -> list[int]:
    """Return a process and those that its threads have started."""
    files = Path(f"/proc/{process}/task").glob("*/children")
    return [process, *(int(word) for file in files for word in file.read_text(encoding="ascii").split())]


def in_turn(commands: list[list[str]], caches: Path, rounds: int, *, warm_up: bool = True) -> list[list[Usage]]:
    """Run each of `commands`, then each again, so that the machine's changing speed meets all of them alike.

    Args:
        commands: The commands to run.
        caches: See `run`.
        rounds: How often each is run.
        warm_up: Whether a round that does not count goes before, which fills the caches.

    Returns:
        The usage of each command, for each round.
    """
    if warm_up:
        in_turn(commands, caches, 1, warm_up=False)
    return [[run(command, caches) for command in commands] for _ in range(rounds)]
