"""One line a step on standard error, with the seconds that it took; a spinner meanwhile where somebody watches."""

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(line: str) -> None:
    """A line for the person who waits; standard output belongs to what other programs read."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextmanager
def step(what: str, *, duration: str = "") -> Iterator[None]:
    """Times a step.

    Args:
        what: the step, as its line names it.
        duration: how long it may take, or how much there is to load. Where no spinner turns, such a step is announced.
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
