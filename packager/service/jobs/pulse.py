"""Pulse: tells everything in this process that waits for news of jobs that there are some."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pulse:
    """A counter of changes that can be waited for.

    Attributes:
        generation: How many changes there have been.
        on_change: What is called with each change.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.on_change: list[Callable[[], None]] = []
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Wake those who wait."""
        self.generation += 1
        current, self._next = self._next, asyncio.Event()
        current.set()
        for call in self.on_change:
            call()

    async def wait(self, generation: int, seconds: float) -> bool:
        """Return True when the generation is another one, or False after some seconds."""
        if self.generation == generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._next.wait()
        return self.generation != generation
