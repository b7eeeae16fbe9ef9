"""The loop: inputs by the million, in worker processes that begin anew, so that not even a crash of a parser ends it.

A subject is a function of a folder that returns a judge; a judge makes one input from a Random, tries it, and returns
what was wrong (None: nothing). The same seed and number make the same input.

Demanded of every input: that it ends within SECONDS of the processor's time, in MEMORY, with nothing raised and nothing
written outside of the subject's folder. The judge demands the rest.
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

# What a Python that has imported the project holds before the first input. A worker that is forked from a larger
# process, as in a test, begins with that one's memory.
_INTERPRETER = 64 << 20

_BATCH = 10_000
_ADDRESS_SPACE = 4 << 30
# What waits takes no time of the processor; what others on this machine keep from the processor takes long as well.
_WAIT_SECONDS = 12 * SECONDS
# What does not come back from C after that alarm is killed.
_PATIENCE = 20 * SECONDS
_STEP = 100
# A report, escaped, has to fit into a pipe at once (PIPE_BUF), so that those of several workers do not mix.
_REPORT_CHARACTERS = 1_500


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: how many inputs were tried, in how many seconds, and what was found, by number."""

    tried: int
    seconds: float
    finds: dict[int, str]


class HangsError(BaseException):
    """An input takes too long."""


def tried(judge: Judge, random: Random, memory: int = MEMORY) -> str | None:
    """Try one input, and return what was wrong; `memory` is how many bytes the process may hold."""
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
    """Return the most bytes that this process has held so far."""
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
        subject: What is tried.
        count: How many.
        seed: The same seed makes the same inputs.
        work: An empty folder.
        workers: How many processes.
        say: Called with a line for each find, and for the state of things.
        every: Seconds from one such state to the next.
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
    """Have workers try `numbers`, one worker after the other, and report what becomes of them."""
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
    """Return the number of the input that the worker began last; kill it when it is silent for too long."""
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
    sys.dont_write_bytecode = True  # what Python keeps of a module that it imports is no write of an input's
    judge = subject(folder)
    gc.freeze()
    gc.set_threshold(50_000)  # as the command does it
    memory = MEMORY + max(0, _held() - _INTERPRETER)
    with writes.confined(folder) as outside:
        for number in numbers:
            os.write(progress, b"%d\n" % number)
            wrong = tried(judge, Random(f"{seed}:{number}"), memory)
            if written := outside + [path.name for path in elsewhere.iterdir()]:
                wrong = f"it wrote elsewhere: {written}"
            if wrong:
                _report(reports, number, wrong)
                break  # what it left, in memory or on disk, must not be taken for the next one's


def _report(reports: int, number: int, wrong: str | None = None) -> None:
    """Report what is wrong with an input; or, without that, how many more have been tried."""
    short = wrong and wrong.encode("ascii", "backslashreplace").decode()[-_REPORT_CHARACTERS:]
    os.write(reports, f"{json.dumps([number, short])}\n".encode())


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise HangsError
