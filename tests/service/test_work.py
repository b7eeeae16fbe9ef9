"""Test that owners take turns, each with one thread, and that cancelled requests lose nothing for others."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from packager.service.failures import Failure
from packager.service.work import Owner, Rates, Work

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.close()


@pytest.mark.parametrize("is_address", [False, True])  # anybody may send answers of an issuer
def test_owner_has_one_thread_and_the_others_are_not_kept_waiting(work: Work, *, is_address: bool) -> None:
    order: list[str] = []
    running: list[str] = []

    def done(name: str, seconds: float) -> None:
        running.append(name)
        assert running.count(name) == 1
        time.sleep(seconds)
        running.remove(name)
        order.append(name)

    async def run() -> None:
        owner = Owner("many", is_address=is_address)
        many = [asyncio.create_task(work.run(owner, lambda: done("many", 0.02))) for _ in range(30)]
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        await work.run(Owner("few", is_address=is_address), lambda: done("few", 0))
        assert time.monotonic() - begun < 0.3
        await asyncio.gather(*many)

    asyncio.run(run())
    assert order.index("few") < 20


def test_owners_who_have_used_less_come_first(work: Work) -> None:
    gate = threading.Event()
    order: list[str] = []

    async def run() -> None:
        await work.run(Owner("heavy"), lambda: time.sleep(0.05))
        held = [asyncio.create_task(work.run(Owner(f"x{number}"), gate.wait)) for number in range(6)]
        await asyncio.sleep(0.01)
        asked = [asyncio.create_task(work.run(Owner(name), partial(order.append, name))) for name in ("heavy", "light")]
        await asyncio.sleep(0.01)
        gate.set()
        await asyncio.gather(*held, *asked)

    asyncio.run(run())
    assert order == ["light", "heavy"]


def test_addresses_never_take_all_threads(work: Work) -> None:
    """An issuer that does not answer keeps people who sign in waiting, and nobody else."""
    gate = threading.Event()

    async def run() -> None:
        owners = [Owner(f"10.0.0.{number}", is_address=True) for number in range(20)]
        held = [asyncio.create_task(work.run(owner, gate.wait)) for owner in owners]
        async with asyncio.timeout(5):
            await work.run(Owner("ada"), lambda: None)
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(run())


def test_cancelled_work_frees_its_place(work: Work) -> None:
    gate = threading.Event()

    async def run() -> None:
        first = asyncio.create_task(work.run(Owner("ada"), gate.wait))
        waiting = asyncio.create_task(work.run(Owner("ada"), lambda: None))
        await asyncio.sleep(0.01)
        waiting.cancel()
        first.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        async with asyncio.timeout(5):
            await work.run(Owner("ada"), lambda: None)

    asyncio.run(run())


def test_owner_with_too_much_waiting_work_is_refused(work: Work) -> None:
    gate = threading.Event()

    async def run() -> None:
        held = [asyncio.create_task(work.run(Owner("ada"), gate.wait)) for _ in range(65)]
        await asyncio.sleep(0.01)
        with pytest.raises(Failure, match="64 requests of this kind wait"):
            await work.run(Owner("ada"), lambda: None)
        await work.run(Owner("bea"), lambda: None)
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(run())


def test_rates_permit_a_burst_and_then_an_even_rate() -> None:
    now = 0.0
    rates = Rates(10, lambda: now)
    assert [rates.pause("a", 1.0) for _ in range(31)] == pytest.approx([0.0] * 31)
    assert rates.pause("a", 1.0) == pytest.approx(0.1)
    assert rates.pause("b", 1.0) == 0.0
    now = 100.0
    assert rates.pause("a", 1.0) == 0.0
