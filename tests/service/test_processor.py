from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from packager.service import processor
from packager.service.fair_queues import FairPool, Owner, Turns
from packager.service.jobs.batches import Batches
from packager.service.processor import MeasuredThreads, Meter, Shares, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

RED, BLUE = Owner("red", "ada"), Owner("blue", "eve")


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


class ThreadClock(threading.local):
    """A clock for each thread, which the test sets."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> ThreadClock:
    """The processor time of the current thread, which the test sets."""
    time = ThreadClock()
    monkeypatch.setattr(processor, "thread_time", time)
    return time


def shares_of_two(clock: Clock) -> Shares:
    """Return shares of 25 %, where two projects have used the server."""
    shares = Shares(25, clock)
    shares.see("red")
    shares.see("blue")
    return shares


def test_project_waits_when_it_has_used_more_than_its_share(clock: Clock) -> None:
    shares = shares_of_two(clock)
    shares.end("red", shares.begin("red"), 0.75)  # a burst of three seconds
    assert shares.pause("red") == pytest.approx(0)
    shares.end("red", shares.begin("red"), 0.5)
    assert shares.pause("red") == pytest.approx(2)
    assert shares.pause("blue") == 0
    clock.time += 2
    assert shares.pause("red") == pytest.approx(0)


def test_project_that_is_alone_never_waits(clock: Clock) -> None:
    shares = shares_of_two(clock)
    for _ in range(100):
        shares.end("red", shares.begin("red"), 1.0)
    assert shares.pause("red") == pytest.approx(5)  # and not for all that it has used
    clock.time += 11
    shares.see("red")
    shares.end("red", shares.begin("red"), 3.0)
    assert shares.pause("red") == 0
    shares.see("blue")
    assert shares.pause("red") == pytest.approx(5)


def test_requests_that_begin_are_counted_with_the_average_of_their_project(clock: Clock) -> None:
    shares = shares_of_two(clock)
    assert shares.begin("red") == pytest.approx(0.005)
    shares.end("red", 0.005, 0.105)
    assert shares.begin("red") == pytest.approx(0.015)
    assert shares.begin("blue") == pytest.approx(0.005)


def test_refused_requests_are_counted(clock: Clock) -> None:
    shares = shares_of_two(clock)
    shares.end("red", 0, 1.0)
    assert shares.pause("red") == pytest.approx(1)


def test_meter_adds_the_steps_of_a_coroutine_and_its_threads(used: ThreadClock) -> None:
    async def work(future: asyncio.Future[str]) -> str:
        used.time += 1
        await asyncio.sleep(0)
        used.time += 2
        await asyncio.get_running_loop().run_in_executor(threads, lambda: setattr(used, "time", used.time + 4))
        with pytest.raises(ValueError, match="no"):
            await future
        return "done"

    async def run() -> tuple[str, Meter]:
        meter, future = processor.start(), asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(measured(meter, work(future)))
        await asyncio.sleep(0)
        used.time += 100  # by others
        asyncio.get_running_loop().call_later(0.01, future.set_exception, ValueError("no"))
        return await task, meter

    threads = MeasuredThreads(1)
    result, meter = asyncio.run(run())
    threads.shutdown()
    assert (result, meter.seconds) == ("done", 7)


def test_measured_coroutine_is_cancelled_with_its_task() -> None:
    async def run() -> None:
        task = asyncio.ensure_future(measured(Meter(), asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_work_in_a_pool_is_added_to_the_meter_of_its_request(used: ThreadClock) -> None:
    def work() -> None:
        used.time += 3
        processor.current().add(0.5)  # a child process

    async def run() -> tuple[float, float]:
        pool, other = FairPool("test", threads=1, share=1, most=3), Meter()
        meter = processor.start()
        await pool.run(RED, work)
        pool.close()
        return meter.seconds, other.seconds

    assert asyncio.run(run()) == (3.5, 0)


def test_batch_is_added_to_the_meters_of_its_items(used: ThreadClock) -> None:
    def work(items: Sequence[int]) -> list[int]:
        used.time += sum(items)
        return [*items]

    async def add(batches: Batches[int, int], owner: Owner, item: int) -> float:
        meter = processor.start()
        await batches.add(owner, item)
        return meter.seconds

    async def run() -> tuple[float, ...]:
        asyncio.get_running_loop().set_default_executor(MeasuredThreads(1))
        batches: Batches[int, int] = Batches(work, 2)
        return tuple(await asyncio.gather(add(batches, RED, 1), add(batches, BLUE, 5), add(batches, RED, 7)))

    assert asyncio.run(run()) == (3, 3, 7)


def test_turns_leave_out_a_project_over_its_share_until_it_may_go_on(clock: Clock) -> None:
    async def run() -> None:
        shares = shares_of_two(clock)
        shares.end("red", 0, 1.75)
        turns = Turns(4, 4, 4, 10, shares)
        red = [asyncio.ensure_future(turns.begin(RED)) for _ in range(2)]
        assert await asyncio.wait_for(turns.begin(BLUE), 60) == pytest.approx(0.005)
        assert not any(turn.done() for turn in red)
        clock.time += 4
        assert await asyncio.wait_for(red[0], 60) == pytest.approx(0.005)
        await asyncio.sleep(0)
        assert not red[1].done()  # the first one is counted
        clock.time += 4
        await asyncio.wait_for(red[1], 60)

    asyncio.run(run())
