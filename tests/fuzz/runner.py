"""The loop of the fuzzer: tries inputs in worker processes, which are replaced when they end, even by a parser's crash.

A subject is a function that takes a folder and returns a judge. A judge makes one input from a Random, tries it, and
returns a message about its fault, or None. The same seed and number make the same input.

Every input must end within SECONDS of processor time, in MEMORY, without an exception, and without a write outside of
the subject's folder. The judge checks the other demands.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NoReturn

from tests.fuzz import writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    Judge = Callable[[Random], str | None]
    Subject = Callable[[Path], Judge]

SECONDS = 10
MEMORY = 256 << 20

# The memory of a Python that has imported the project, before the first input. A worker that is forked from a larger
# process, as in a test, begins with the memory of that process.
_INTERPRETER = 64 << 20

_BATCH = 10_000
_ADDRESS_SPACE = 4 << 30
# A waiting input takes no processor time; an input on a busy machine takes longer than its processor time.
_WAIT_SECONDS = 12 * SECONDS
# A worker that does not return from C code after that alarm is killed.
_PATIENCE = 20 * SECONDS
_STEP = 100
# An escaped report must fit into a pipe in one write (PIPE_BUF), so that reports of several workers do not mix.
_REPORT_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the number of inputs, the seconds, and the faults by the input's number."""

    tried: int
    seconds: float
    finds: dict[int, str]


class HangsError(BaseException):
    """An input takes too long."""


def tried(judge: Judge, random: Random, memory: int = MEMORY) -> str | None:
    """Try one input, and return a message about its fault, or None; `memory` is the most bytes of the process."""
    before = [(number, signal.signal(number, _hang)) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(_WAIT_SECONDS)
    try:
        wrong = judge(random)
    except HangsError:
        wrong = f"it had not ended after {SECONDS} seconds:\n{traceback.format_exc(limit=-8)}"
    except BaseException:  # noqa: BLE001 - whatever comes out here is the find
        wrong = traceback.format_exc(limit=-8)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in before:
            signal.signal(number, handler)
    if not wrong and _held() > memory:
        wrong = f"it took {_held() >> 20} MiB of memory"
    return wrong


def _held() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def run(
    subject: Subject,
    count: int,
    seed: str,
    work: Path,
    *,
    workers: int,
    say: Callable[[str], object] = lambda _line: None,
    every: float = 10,
) -> Outcome:
    """Try `count` inputs, each worker its share.

    Args:
        subject: The subject that makes and judges the inputs.
        count: The number of inputs.
        seed: The seed; the same seed makes the same inputs.
        work: An empty folder.
        workers: The number of processes.
        say: Called with a line for each fault, and for the progress.
        every: The seconds between two lines about the progress.
    """
    began = reported_at = time.monotonic()
    finds: dict[int, str] = {}
    done = 0
    reading, writing = os.pipe()
    children = [
        _forked(_supervise, subject, range(n, count, workers), seed, work / str(n), writing) for n in range(workers)
    ]
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as reports:
        for line in reports:
            number, wrong = json.loads(line)
            if wrong:
                finds[number] = wrong
                say(f"input {number}: {wrong}")
            else:
                done += number
            if time.monotonic() - reported_at > every:
                reported_at = time.monotonic()
                say(f"{done} of {count} inputs, {len(finds)} finds, {done / (reported_at - began):.0f} a second")
    if failed := [child for child in children if os.waitpid(child, 0)[1] != 0]:
        raise RuntimeError(f"{len(failed)} of {workers} workers could not go on")
    return Outcome(done, time.monotonic() - began, finds)


def _forked(work: Callable[..., None], *arguments: object) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become(work, *arguments)
    return child


def _become(work: Callable[..., None], *arguments: object) -> NoReturn:
    code = 1
    try:
        work(*arguments)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def _supervise(subject: Subject, numbers: range, seed: str, folder: Path, reports: int) -> None:
    """Try `numbers` in workers, one after the other, and report each worker that ends early."""
    while numbers:
        reading, writing = os.pipe()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        worker = _forked(_work, subject, numbers[:_BATCH], seed, folder, reports, writing)
        os.close(writing)
        last = _watch(worker, reading, reports)
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        if last is None:
            raise RuntimeError(f"a worker ended with {status} before its first input")
        if status != 0:
            _report(reports, last, f"the process ended with status {status}, or did not end")
        numbers = numbers[numbers.index(last) + 1 :]


def _watch(worker: int, reading: int, reports: int) -> int | None:
    """Return the number of the last input that the worker began; kill a worker that is silent for too long."""
    last, begun = b"", 0
    with os.fdopen(reading, "rb", buffering=0) as stream:
        while select.select([stream], [], [], _PATIENCE)[0]:
            heard = stream.read(1 << 16)
            if not heard:
                break
            last = (last + heard)[-64:]
            begun += heard.count(b"\n")
            if begun >= _STEP:
                _report(reports, begun)
                begun = 0
        else:
            os.kill(worker, signal.SIGKILL)
    _report(reports, begun)
    lines = last.decode().split()
    return int(lines[-1]) if lines else None


def _work(subject: Subject, numbers: range, seed: str, folder: Path, reports: int, progress: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    sys.dont_write_bytecode = True  # Python's cache of an imported module is not a write of the input
    judge = subject(folder)
    gc.freeze()
    gc.set_threshold(50_000)  # as the command sets it
    memory = MEMORY + max(0, _held() - _INTERPRETER)
    with writes.confined(folder) as outside:
        for number in numbers:
            os.write(progress, b"%d\n" % number)
            wrong = tried(judge, Random(f"{seed}:{number}"), memory)
            if written := outside + [path.name for path in elsewhere.iterdir()]:
                wrong = f"it wrote elsewhere: {written}"
            if wrong:
                _report(reports, number, wrong)
                break  # its remains in memory or on disk must not count as the next input's


def _report(reports: int, number: int, wrong: str | None = None) -> None:
    """Report the fault of an input; without `wrong`, the number of further inputs that were tried."""
    short = wrong and wrong.encode("ascii", "backslashreplace").decode()[-_REPORT_CHARACTERS:]
    os.write(reports, f"{json.dumps([number, short])}\n".encode())


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise HangsError
