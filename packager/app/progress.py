"""Defines the callables with which a use case reports progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Tell(Protocol):
    """Receives a line of text for the user."""

    def __call__(self, text: str, /) -> None:
        """Take it."""


class Progress(Protocol):
    """Shows the progress of a task."""

    def __call__(self, label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
        """Return a context whose function takes steps done, of `total` steps.

        Args:
            label: What is worked on.
            total: How many steps there are.
            unit: What a step is: "bytes", or a word in the plural.
        """
