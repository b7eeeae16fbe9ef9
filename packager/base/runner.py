"""Runner: starts programs, tells the time and waits, as a value that tests replace.

Tests: kubernetes/kubectl/test_client.py.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from packager.base import process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager


class Runner:
    """The runner of this system: it starts programs and really waits."""

    def run(  # noqa: PLR0913 - as `process.run`
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        max_bytes: int = process.MAX_BYTES,
        memory: int | None = None,
        stdin: bytes | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> process.Finished:
        """Run a program to its end, as `process.run` does."""
        return process.run(argv, timeout=timeout, max_bytes=max_bytes, memory=memory, stdin=stdin, variables=variables)

    def stream(
        self,
        argv: Sequence[str],
        *,
        idle: Callable[[float], object],
        keep_stdin_open: bool,
        variables: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[process.Running]:
        """Start a program whose output is read while it runs, as `process.stream` does."""
        return process.stream(argv, idle=idle, keep_stdin_open=keep_stdin_open, variables=variables)

    def run_in_terminal(
        self,
        argv: Sequence[str],
        *,
        stdout_to_stderr: bool = False,
        quiet: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> int:
        """Run a program on the user's own terminal, as `process.run_in_terminal` does."""
        return process.run_in_terminal(argv, stdout_to_stderr=stdout_to_stderr, quiet=quiet, variables=variables)

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def clock(self) -> float:
        """Return the seconds since some moment in the past."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM = Runner()


class Tell(Protocol):
    """Receives a line of text for the user."""

    def __call__(self, text: str, /) -> None:
        """Receive the line."""


class Progress(Protocol):
    """Shows the progress of a task."""

    def __call__(self, label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """Return a context with a function that adds completed steps.

        Args:
            label: The name of the task.
            total: The number of steps.
            unit: The unit of a step: "bytes", or a word in the plural.
        """
