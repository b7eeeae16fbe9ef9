"""Prints a line for each step to standard error, with its seconds."""

import sys
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
        duration: The expected duration or amount of data; such a step is announced at its start.
    """
    begin = time.monotonic()
    if duration:
        say(f"      ...  {what} ({duration})")
    mark = "x"
    try:
        yield
        mark = " "
    finally:
        say(f"{mark}{time.monotonic() - begin:7.1f}s  {what}")
