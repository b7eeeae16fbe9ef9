"""Work in several processes: in order, with its errors, and with an end for each of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from packager.base import parallel

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
import os, signal, sys, time
from pathlib import Path
from packager.base.errors import MlpackError, SpecError
from packager.base.problems import Problem
from packager.base.parallel import Crew, usable

def decide(item, question):
    order.append(item)
    return f"{question} is {item}"

order = []
"""


def started(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program of its own: threads keep the process of the tests from being copied."""
    argv = [sys.executable, "-c", HEAD + text, *map(str, arguments)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def printed(text: str, *arguments: object) -> list[str]:
    process = started(text, *arguments)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output.splitlines()


def test_results_and_decisions_come_in_order() -> None:
    """The first piece takes longest, and its question comes last."""
    work = """\
def work(item, ask):
    time.sleep(0.2 if item == 0 else 0)
    if item % 10 == 9:
        return f"{item}: not asked"
    answer = ask(f"question of {item}")
    if item % 10 == 8:
        return f"{item}: not waited for"
    return f"{answer()} {answer()} {os.getpid()}"

with Crew(range(100), work, decide, 3) as crew:
    results = list(crew.results())
for item, result in enumerate(results):
    answer = f"question of {item} is {item}"
    expected = {8: f"{item}: not waited for", 9: f"{item}: not asked"}.get(item % 10, f"{answer} {answer}")
    assert result.startswith(expected), result
assert order == [item for item in range(100) if item % 10 != 9]
processes = {result.split()[-1] for result in results if " is " in result}
assert 1 < len(processes) <= 3 and str(os.getpid()) not in processes
"""
    assert printed(work) == []


def test_a_decision_does_not_wait_for_a_piece_that_asks_nothing() -> None:
    work = """\
def work(item, ask):
    return item if item < 5 else ask("it")()

with Crew(range(10), work, decide, 2) as crew:
    print(*crew.results(), sep=",")
"""
    assert printed(work) == ["0,1,2,3,4,it is 5,it is 6,it is 7,it is 8,it is 9"]


def test_an_error_comes_at_its_place_with_all_that_it_says() -> None:
    work = """\
class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one}{two}")

def work(item, ask):
    if item == 3:
        raise SpecError("wrong", hint="mend it", problems=[Problem("a.yaml", 1, 2, "bad")])
    return item

def odd(item, ask):
    raise OddError("o", "dd")

def full(item, ask):
    raise OSError(28, "No space left on device", "there")

for function in (work, odd, full):
    try:
        with Crew(range(9), function, decide, 2) as crew:
            for result in crew.results():
                print(result)
    except SpecError as error:
        print(error, error.hint, error.problems[0])
    except OSError as error:
        print(error.errno, error.filename)
    except RuntimeError as error:
        print(error, error.__notes__[0].splitlines()[0], ", in odd" in error.__notes__[0])
"""
    assert printed(work) == [
        "0",
        "1",
        "2",
        "wrong mend it a.yaml:1:2: bad",
        "odd In another process: True",
        "28 there",
    ]


def test_a_process_that_is_killed_is_told() -> None:
    work = """\
def work(item, ask):
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)

try:
    with Crew(range(50), work, decide, 2) as crew:
        list(crew.results())
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


LONG = """\
def work(item, ask):
    folder = Path(sys.argv[1]) / str(item)
    try:
        folder.touch()
        time.sleep(0.1 if item < 2 else 60)
    finally:
        folder.unlink(missing_ok=True)
    return item

def stop(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, stop)
try:
    with Crew(range(50), work, decide, 2) as crew:
        for result in crew.results():
            print(result, flush=True)
except KeyboardInterrupt:
    print("stopped", flush=True)
    print(*Path(sys.argv[1]).iterdir(), flush=True)
"""


def test_the_other_processes_clean_up_before_the_first_one_goes_on(tmp_path: Path) -> None:
    process = started(LONG, tmp_path)
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == ["0\n", "1\n"]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "stopped\n\n"


def test_the_other_processes_end_with_the_first_one_and_clean_up(tmp_path: Path) -> None:
    process = started(LONG, tmp_path)
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == ["0\n", "1\n"]
    process.kill()
    assert process.communicate(timeout=30)[0] == ""  # all that could write to it have ended
    assert list(tmp_path.iterdir()) == []


def test_one_process_does_all_where_no_other_one_can_be_started() -> None:
    work = """\
def fail():
    raise BlockingIOError(11, "Resource temporarily unavailable")

def work(item, ask):
    answer = ask("it")
    return f"{answer()} {os.getpid() == here}"

os.fork, here = fail, os.getpid()
with Crew(range(3), work, decide, 2) as crew:
    print(*crew.results(), sep=",")
"""
    assert printed(work) == ["it is 0 True,it is 1 True,it is 2 True"]


def test_there_are_as_many_processes_as_processors_that_may_be_used() -> None:
    assert printed("print(usable() == min(8, len(os.sched_getaffinity(0))), usable(1))") == ["True 1"]
    assert printed("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(usable())") == ["1"]
    assert printed("del os.sched_getaffinity; print(usable())") == ["1"]


def test_a_process_with_threads_is_not_copied() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert parallel.usable() == 1
    finally:
        end.set()
        thread.join()
