"""Work in several processes: in order, with its errors, and with an end for each of them."""

from __future__ import annotations

import subprocess
import sys

HEAD = """\
import os, signal, sys, time
from pathlib import Path
from packager.base.errors import MlpackError, SpecError
from packager.base.problems import Problem
from packager.base.parallel import started, usable
"""


def started(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a separate program: threads keep the process of the tests from being copied."""
    argv = [sys.executable, "-c", HEAD + text, *map(str, arguments)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def printed(text: str, *arguments: object) -> list[str]:
    process = started(text, *arguments)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output.splitlines()


def test_results_are_yielded_in_order() -> None:
    """The first piece takes longest."""
    work = """\
def work(item):
    time.sleep(0.2 if item == 0 else 0)
    return item, os.getpid()

with started(work, 3) as results:
    done = list(results(range(100)))
    assert list(results([])) == []
assert [item for item, _ in done] == list(range(100))
processes = {process for _, process in done}
assert 1 < len(processes) <= 3 and os.getpid() not in processes
"""
    assert printed(work) == []


def test_error_is_raised_at_its_place_with_its_attributes() -> None:
    work = """\
class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one}{two}")

def work(item):
    if item == 3:
        raise SpecError("wrong", hint="mend it", problems=[Problem("a.yaml", 1, 2, "bad")])
    return item

def odd(item):
    raise OddError("o", "dd")

def full(item):
    raise OSError(28, "No space left on device", "there")

for function in (work, odd, full):
    try:
        with started(function, 2) as results:
            for result in results(range(9)):
                print(result)
    except SpecError as error:
        print(error, error.hint, error.problems[0])
    except OSError as error:
        print(error.errno, error.filename)
    except RuntimeError as error:
        print(error, type(error.__cause__).__name__, ", in odd" in str(error.__cause__))
"""
    assert printed(work) == [
        "0",
        "1",
        "2",
        "wrong mend it a.yaml:1:2: bad",
        "odd _RemoteTraceback True",
        "28 there",
    ]


def test_killed_process_is_reported() -> None:
    work = """\
def work(item):
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)

try:
    with started(work, 2) as results:
        list(results(range(50)))
except MlpackError as error:
    print(error.exit_code, error, "|", error.hint)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process is left")
"""
    assert printed(work) == [
        (
            "6 one of the processes of this run was killed | "
            "is there too little memory? `taskset -c 0 mlpack ...` makes do with one process"
        ),
        "no process is left",
    ]


def test_processes_are_as_many_as_usable_processors() -> None:
    assert printed("print(usable() == min(8, len(os.sched_getaffinity(0))), usable(1))") == ["True 1"]
    assert printed("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(usable())") == ["1"]
    assert printed("del os.sched_getaffinity; print(usable())") == ["1"]
