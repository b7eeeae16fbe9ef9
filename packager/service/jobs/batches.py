"""Batches: a thread processes all requests together that arrived while it was busy."""

from __future__ import annotations

import asyncio
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from packager.service import processor
from packager.service.fair_queues import FairQueue, Owner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeAlias

    from packager.service.processor import Meter

Item = TypeVar("Item")
Result = TypeVar("Result")

Outcomes: TypeAlias = "Sequence[Result | Exception]"

_MOST_WAITING = 256
"""The maximum number of waiting items of one caller."""


class Batches(Generic[Item, Result]):
    """Work that is cheaper for several requests at once, which share the start of a thread and the data that it reads.

    Projects and callers take turns; see `FairQueue`.

    Args:
        work: Called in a thread with the waiting items. Returns the result of each item, or the error to raise for it.
            It may return results only for the first items, at least one; the others come next.
        most: The maximum number of items in a batch.
        run: Calls a function in a thread, and returns its result.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Outcomes[Result]],
        most: int,
        run: Callable[[Callable[[], Outcomes[Result]]], Awaitable[Outcomes[Result]]] = asyncio.to_thread,
    ) -> None:
        self._do = work
        self._most = most
        self._run = run
        self._waiting: FairQueue[tuple[Item, asyncio.Future[Result], Meter]] = FairQueue(_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def add(self, owner: Owner, item: Item) -> Result:
        """Return the result of an item, or raise its error. Raises Failure if too many items of the caller wait."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.add(owner, (item, future, processor.current()))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), context=Context())
        return await future

    async def _work(self) -> None:
        try:
            while batch := self._batch():
                for owner, entry in reversed(await self._done(batch)):
                    self._waiting.put_back(owner, entry)
        finally:
            self._task = None

    def _batch(self) -> list[tuple[Owner, tuple[Item, asyncio.Future[Result], Meter]]]:
        """Return the next items, without those of cancelled requests."""
        batch: list[tuple[Owner, tuple[Item, asyncio.Future[Result], Meter]]] = []
        while len(batch) < self._most and (following := self._waiting.take()):
            if not following[1][1].cancelled():
                batch.append(following)
        return batch

    async def _done(
        self, batch: list[tuple[Owner, tuple[Item, asyncio.Future[Result], Meter]]]
    ) -> list[tuple[Owner, tuple[Item, asyncio.Future[Result], Meter]]]:
        """Process a batch, and return its items without a result."""
        futures = [future for _, (_, future, _) in batch]
        spent = processor.start()
        try:
            outcomes = await self._run(partial(self._do, [item for _, (item, _, _) in batch]))
        except BaseException as error:
            for future in futures:
                if isinstance(error, Exception) and not future.done():
                    future.set_exception(error)
                else:  # the server ends
                    future.cancel()
            if isinstance(error, Exception):
                return []
            raise
        for _, (_, _, meter) in batch[: len(outcomes)]:
            meter.add(spent.seconds / len(outcomes))
        for future, outcome in zip(futures, outcomes, strict=False):
            if future.done():  # the request was cancelled
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return batch[len(outcomes) :]
