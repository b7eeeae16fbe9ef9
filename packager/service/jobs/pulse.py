"""Pulse: notifies all waiting tasks of this process about events of jobs. Tests: service/use/test_events.py."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pulse:
    """A counter of changes, with a method to wait for the next one.

    Attributes:
        generation: The number of changes.
        on_change: The functions that are called at each change.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.on_change: list[Callable[[], None]] = []
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Count a change, wake waiting tasks, and call the functions in `on_change`."""
        self.generation += 1
        current, self._next = self._next, asyncio.Event()
        current.set()
        for call in self.on_change:
            call()

    async def wait(self, generation: int, seconds: float) -> bool:
        """Return True when the generation differs from `generation`, or False after `seconds`."""
        if self.generation == generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._next.wait()
        return self.generation != generation
