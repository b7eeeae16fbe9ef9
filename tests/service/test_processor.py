from __future__ import annotations

import asyncio
import threading

import pytest

from packager.service import processor
from packager.service.fair_queues import Owner
from packager.service.processor import MeasuredThreads, Meter, Shares, measured

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
