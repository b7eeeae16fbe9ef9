"""The loop of the fuzzer: tries inputs in worker processes, which are replaced when one ends, as by a parser's crash.

A subject is a function that takes a folder and returns a judge. A judge makes one input from a Random, tries it, and
returns a message about its fault, or None. The same seed and number make the same input.

Every input must end within SECONDS of processor time, in MEMORY, without an exception, and without a write outside of
the subject's folder. The judge checks the other demands.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
import traceback
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz import writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    Judge = Callable[[Random], str | None]
    Subject = Callable[[Path], Judge]

SECONDS = 10
MEMORY = 256 << 20

_ADDRESS_SPACE = 4 << 30


class HangsError(BaseException):
    """An input takes too long."""


def tried(judge: Judge, random: Random) -> str | None:
    """Try one input, and return a message about its fault, or None."""
    before = [(number, signal.signal(number, _hang)) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(12 * SECONDS)  # an input that waits takes no processor time
    try:
        return judge(random)
    except BaseException:  # noqa: BLE001 - whatever comes out here is the find
        return traceback.format_exc(limit=-8)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in before:
            signal.signal(number, handler)


def run(subject: Subject, numbers: range, seed: str, work: Path, *, workers: int = 1) -> dict[int, str]:
    """Try the inputs of these numbers, each worker its share, and return the faults by the input's number.

    Args:
        subject: The subject that makes and judges the inputs.
        numbers: The numbers of the inputs.
        seed: The seed; the same seed makes the same inputs.
        work: A folder that does not exist.
        workers: The number of processes.
    """
    fork = multiprocessing.get_context("fork")
    shares = [numbers[n::workers] for n in range(workers)]
    finds: dict[int, str] = {}
    for attempt in range(len(numbers) + 1):  # a worker ends after a find: its remains must not count as the next's
        shares = [share for share in shares if share]
        folders = [work / f"{attempt}-{share[0]}" for share in shares]
        processes = [
            fork.Process(target=_worker, args=(subject, share, seed, folder))
            for share, folder in zip(shares, folders, strict=True)
        ]
        for process in processes:
            process.start()
        for index, (process, folder) in enumerate(zip(processes, folders, strict=True)):
            process.join()
            last, wrong = json.loads((folder / "report").read_text())
            if wrong or process.exitcode:
                finds[last] = wrong or f"the process ended with status {process.exitcode}"
            shares[index] = shares[index][shares[index].index(last) + 1 :]
        if not any(shares):
            break
    return finds


def _worker(subject: Subject, numbers: range, seed: str, folder: Path) -> None:
    """Run `_work` without the cleanup of the forked process; threads of a subject do not keep it."""
    code = 1
    try:
        _work(subject, numbers, seed, folder)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def _work(subject: Subject, numbers: range, seed: str, folder: Path) -> None:
    """Try inputs until one fails, and write its number and its fault; the last number without a fault."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    elsewhere, report = folder / "work/elsewhere", folder / "report"
    elsewhere.mkdir(parents=True)
    os.chdir(elsewhere)
    sys.dont_write_bytecode = True  # Python's cache of an imported module is not a write of the input
    judge = subject(folder / "work")
    gc.freeze()
    gc.set_threshold(50_000)  # as the command sets it
    most = MEMORY + _peak()
    for number in numbers:
        report.write_text(json.dumps([number, None]))
        with writes.confined(folder / "work") as outside:
            wrong = tried(judge, Random(f"{seed}:{number}"))
        if not wrong and _peak() > most:
            wrong = f"it took {_peak() >> 20} MiB of memory"
        if written := outside + [path.name for path in elsewhere.iterdir()]:
            wrong = f"it wrote elsewhere: {written}"
        if wrong:
            report.write_text(json.dumps([number, wrong[-1_500:]]))
            return


def _peak() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise HangsError
