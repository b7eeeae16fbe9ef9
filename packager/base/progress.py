"""Defines the callables with which a use case reports progress. Tests: app/test_lint.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


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
