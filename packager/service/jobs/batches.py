"""Batches: does for many requests at once, in a thread, what came in while the thread was at work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batches(Generic[Item, Result]):
    """Work that costs less if it is done for several requests at once: they share a thread's start, and what it reads.

    Args:
        work: Is called in a thread with what waits. It returns for each item its result, or the error that is raised
            for it; there may be fewer than there are items, but not none, and those left over are next.
        most: How many items there are at most in a batch.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result | Exception]], most: int) -> None:
        self._do = work
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Result:
        """Return the result of an item, or raise its error."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                self._waiting = [entry for entry in self._waiting if not entry[1].cancelled()]
                batch = self._waiting[: self._most]
                del self._waiting[: self._most]
                if batch:
                    self._waiting[:0] = await self._done(batch)
        finally:
            self._task = None

    async def _done(
        self, batch: list[tuple[Item, asyncio.Future[Result]]]
    ) -> list[tuple[Item, asyncio.Future[Result]]]:
        """Do a batch; return what is left of it."""
        try:
            outcomes = await asyncio.to_thread(self._do, [item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if isinstance(error, Exception) and not future.done():
                    future.set_exception(error)
                else:  # the server ends
                    future.cancel()
            if isinstance(error, Exception):
                return []
            raise
        for (_, future), outcome in zip(batch, outcomes, strict=False):
            if future.done():  # the request was cancelled
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return batch[len(outcomes) :]
