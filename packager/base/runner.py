"""Runner: starts programs, tells the time and waits, as a value that tests replace.

Tests: kubernetes/kubectl/test_client.py.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from packager.base import process

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Runner:
    """The runner of this system: it starts programs and really waits."""

    run = staticmethod(process.run)
    stream: Callable[..., AbstractContextManager[process.Running]] = staticmethod(process.stream)
    run_in_terminal = staticmethod(process.run_in_terminal)
    clock = staticmethod(time.monotonic)  # the seconds since some moment in the past

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

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
        """Return a context with a function that adds completed steps; `unit` is "bytes", or a word in the plural."""
