"""Prints a line for each step to standard error, with its seconds; on a terminal, a spinner during the step."""

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(line: str) -> None:
    """Print a line to standard error; standard output is for other programs."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextmanager
def step(what: str, *, duration: str = "") -> Iterator[None]:
    """Measure and print the time of a step.

    Args:
        what: The name of the step in its line.
        duration: The expected duration or amount of data; without a terminal, such a step is announced at its start.
    """
    begin = time.monotonic()
    watched = sys.stderr.isatty()
    over = threading.Event()
    spinner = threading.Thread(target=_spin, args=(f"{what} ({duration})" if duration else what, over), daemon=True)
    if watched:
        spinner.start()
    elif duration:
        say(f"      ...  {what} ({duration})")
    mark = "x"
    try:
        yield
        mark = " "
    finally:
        over.set()
        if watched:
            spinner.join()
        say(f"{mark}{time.monotonic() - begin:7.1f}s  {what}")


def _spin(what: str, over: threading.Event) -> None:
    begin = time.monotonic()
    for beat in itertools.cycle("|/-\\"):
        sys.stderr.write(f"\r{beat}{time.monotonic() - begin:7.1f}s  {what}\033[K")
        sys.stderr.flush()
        if over.wait(0.1):
            break
    sys.stderr.write("\r\033[K")
