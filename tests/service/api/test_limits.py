"""Test the limits of a caller, which leave the others alone."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from packager.service.access.tokens import EVERY, Caller
from packager.service.api import limits
from packager.service.api.limits import Door
from packager.service.config import LimitsConfig
from packager.service.failures import Failure

ADA, BEA = (Caller(name, name, {EVERY: "user"}) for name in ("ada", "bea"))


def request(method: str = "GET", body: Any = None) -> Any:
    async def read() -> bytes:
        await (body or asyncio.sleep(0))
        return b""

    return SimpleNamespace(state={}, method=method, body=read)


def scope_of(asked: Any) -> Any:
    return {"state": asked.state}


def test_caller_with_too_many_requests_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LONGEST_PAUSE", 0.01)

    async def run() -> None:
        door = Door(LimitsConfig(requests_at_once=6))
        asked = [request() for _ in range(6)]
        entering = [asyncio.create_task(door.enter(item, ADA)) for item in asked]
        await asyncio.sleep(0.01)
        assert [task.done() for task in entering] == [True] * 2 + [False] * 4
        with pytest.raises(Failure, match="6 requests of ada are at work"):
            await door.enter(request(), ADA)
        await door.enter(request(), BEA)
        door.answered(scope_of(asked[0]))  # a stream goes on, but makes room for others
        await entering[2]
        for item in asked[:3]:
            door.left(scope_of(item))
        await asyncio.wait(entering[3:5])

    asyncio.run(run())


def test_rate_of_a_caller_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LONGEST_PAUSE", 0.1)

    async def run() -> None:
        now = 0.0
        door = Door(LimitsConfig(caller_requests_per_second=1), lambda: now)
        for _ in range(4):
            asked = request()
            await door.enter(asked, ADA)
            door.left(scope_of(asked))
        asked = request()
        with pytest.raises(Failure, match="ada makes more than 1 requests a second") as raised:
            await door.enter(asked, ADA)
        door.left(scope_of(asked))
        assert raised.value.retry_after == 1
        await door.enter(request(), BEA)

    asyncio.run(run())


def test_streams_of_a_caller_are_limited() -> None:
    async def run() -> None:
        door = Door(LimitsConfig(streams=1))
        first, second = request(), request()
        for item in (first, second):
            await door.enter(item, ADA)
        door.begin_stream(first)
        with pytest.raises(Failure, match="1 streams of the caller are open"):
            door.begin_stream(second)
        door.left(scope_of(first))
        door.begin_stream(second)

    asyncio.run(run())


def test_body_that_does_not_arrive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.01)

    async def run() -> None:
        asked = request("POST", asyncio.sleep(60))
        with pytest.raises(Failure, match=r"the body has not arrived within 0.01 s") as raised:
            await Door(LimitsConfig()).enter(asked, ADA)
        assert raised.value.status == 408

    asyncio.run(run())


def test_only_addresses_with_many_anonymous_requests_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_ANONYMOUS_PER_SECOND", 1)

    async def run() -> None:
        door = Door(LimitsConfig(), lambda: 0.0)
        for _ in range(4):
            await door.hold_back({"state": {}, "client": ("10.0.0.1", 1)})  # type: ignore[typeddict-item]
        begun = time.monotonic()
        await door.hold_back({"state": {}, "client": ("10.0.0.2", 1)})  # type: ignore[typeddict-item]
        assert time.monotonic() - begun < 0.5
        await door.hold_back({"state": {}, "client": ("10.0.0.1", 1)})  # type: ignore[typeddict-item]
        assert time.monotonic() - begun > 0.5

    asyncio.run(run())
