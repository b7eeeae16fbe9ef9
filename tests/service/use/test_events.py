from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from packager.service.access.tokens import Caller, key_of
from packager.service.jobs.follower import Pulse
from packager.service.store.store import Store
from packager.service.use import events
from packager.service.use.events import JobEvents

if TYPE_CHECKING:
    from pathlib import Path

CALLER = Caller("ada", key_of("ada"), {"vision": "viewer"})


async def authenticate() -> Caller:
    return CALLER


def test_silent_stream_stays_open_while_other_projects_have_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would close a silent stream; the times of comments must not reveal events of other projects."""
    monkeypatch.setattr(events, "_SILENCE", 0.2)
    pulse = Pulse()
    use = JobEvents(Store(tmp_path / "server.db"), pulse)

    async def others() -> None:
        while True:
            pulse.tell()
            await asyncio.sleep(0.01)

    async def follow() -> None:
        busy = asyncio.create_task(others())
        try:
            async with asyncio.timeout(30):
                followed = await use.follow(authenticate, None)
                assert [await anext(followed) for _ in range(3)] == [[], [], []]
        finally:
            busy.cancel()

    asyncio.run(follow())


@pytest.mark.parametrize("roles", [{"vision": "viewer", "research": "viewer"}, {"research": "admin"}])
def test_stream_ends_when_its_caller_sees_other_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roles: dict[str, str]
) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.01)
    use = JobEvents(Store(tmp_path / "server.db"), Pulse())
    callers = iter([CALLER, CALLER])

    async def changing() -> Caller:
        return next(callers, Caller("ada", key_of("ada"), roles))

    async def follow() -> list[object]:
        async with asyncio.timeout(30):
            return [item async for item in await use.follow(changing, None)]

    assert asyncio.run(follow()) == []
    assert next(callers, None) is None
