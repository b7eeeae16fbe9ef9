from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from packager.service.failures import Failure
from packager.service.fair_queues import FairQueue, Owner, Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable

ADA, BOB, EVE = Owner("research", "ada"), Owner("research", "bob"), Owner("vision", "eve")


def test_queue_alternates_between_projects_and_their_callers() -> None:
    queue: FairQueue[int] = FairQueue(10)
    for number in range(4):
        queue.add(ADA, number)
    for number in range(10, 12):
        queue.add(BOB, number)
        queue.add(EVE, 10 * number)
    taken = [following[1] for _ in range(8) if (following := queue.take())]
    assert taken == [0, 100, 10, 110, 1, 11, 2, 3]
    assert not queue
    assert queue.take() is None


def test_queue_refuses_only_callers_with_too_many_waiting_items() -> None:
    queue: FairQueue[int] = FairQueue(2)
    queue.add(ADA, 1)
    queue.add(ADA, 2)
    with pytest.raises(Failure) as refused:
        queue.add(ADA, 3)
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    queue.add(BOB, 3)


async def _begun(awaitables: list[Awaitable[float]]) -> list[asyncio.Future[float]]:
    futures: list[asyncio.Future[float]] = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return futures


def test_turns_limit_places_in_total_per_project_and_per_caller() -> None:
    async def run() -> None:
        turns = Turns(4, 3, 2, most=10)
        ada = await _begun([turns.begin(ADA) for _ in range(4)])
        bob = await _begun([turns.begin(BOB) for _ in range(2)])
        eve = await _begun([turns.begin(EVE) for _ in range(2)])
        assert [future.done() for future in (*ada, *bob, *eve)] == [True, True, False, False, True, False, True, False]
        turns.end(ADA)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [future.done() for future in (*ada[2:], bob[1], eve[1])].count(True) == 1
        for future in (*ada, *bob, *eve):
            future.cancel()

    asyncio.run(run())
