"""The use cases of events: changes of the status of jobs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from packager.base.values import as_dict
from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.store.databases import AwayError
from packager.service.store.store import FINAL
from packager.service.use.answers import JobEvent, Page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from packager.service.access.tokens import Caller
    from packager.service.jobs.follower import Pulse
    from packager.service.store.models import StoredEvent
    from packager.service.store.store import Store

    Authenticate = Callable[[], Awaitable[Caller]]

_SILENCE = 15.0
"""Seconds without events after which an empty list is sent, so that proxies keep a stream open."""

_MOST = 1000


class JobEvents:
    """The use cases of events."""

    def __init__(self, store: Store, pulse: Pulse) -> None:
        self._store = store
        self._pulse = pulse

    async def position(self) -> str:
        """Return the value of `after` for future events."""
        return str(await asyncio.to_thread(self._store.last_event))

    async def read(self, caller: Caller, release: str | None, after: str | None = None) -> Page[JobEvent]:
        """Return the events of a job, or of all jobs that the caller may see, the oldest first. Raises Failure."""
        projects = await self._projects(caller, release)
        stored = await asyncio.to_thread(self._store.events, release, _number(after), _MOST, projects)
        items = [_event(event) for event in stored]
        return Page(items=items, next=items[-1].id if len(items) == _MOST else None)

    async def follow(
        self, authenticate: Authenticate, release: str | None, after: str | None = None
    ) -> AsyncIterator[Sequence[JobEvent]]:
        """Return lists of events as they occur, in the order of `read`; an empty list after a silence.

        The events of a job end with the job. All streams end when the caller may see other projects than at the start.
        Raises Failure.
        """
        number = _number(after)
        projects = await self._projects(await authenticate(), release)

        async def check() -> None:
            if await self._projects(await authenticate(), release) != projects:
                raise Failure("forbidden", "the roles of the caller have changed")

        return guarded(self._followed(release, number, projects), check)

    async def _projects(self, caller: Caller, release: str | None) -> tuple[str, ...] | None:
        """Return the projects whose events are read; None for all. Raises Failure."""
        permissions.check_role(caller, "viewer")
        if release is None:
            return permissions.projects_of(caller, "viewer")
        await asyncio.to_thread(permissions.visible_job, caller, release, self._store.job)
        return None

    async def _followed(
        self, release: str | None, after: int, projects: tuple[str, ...] | None
    ) -> AsyncGenerator[Sequence[JobEvent]]:
        told = monotonic()
        while True:
            generation = self._pulse.generation
            # The job is read before its events, because its end is stored together with the last event.
            job = await asyncio.to_thread(self._store.job, release) if release is not None else None
            events = await asyncio.to_thread(self._store.events, release, after, _MOST, projects)
            if events:
                after = events[-1].id
                told = monotonic()
                yield [_event(event) for event in events]
            elif release is not None and (job is None or job.status in FINAL):
                return
            elif monotonic() - told >= _SILENCE:  # also if jobs of other projects have events
                told = monotonic()
                yield []
            else:
                await self._pulse.wait(generation, max(0.0, told + _SILENCE - monotonic()))


def _event(event: StoredEvent) -> JobEvent:
    return JobEvent(**{**as_dict(event), "id": str(event.id)})


def _number(after: str | None) -> int:
    """Return the number of the event with an id; 0 for None. Raises Failure."""
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise Failure("invalid-query", "after: expected the id of an event")
    return int(after or 0)


Item = TypeVar("Item")

LOOK_SECONDS = 15.0
"""Seconds between the checks whether the caller of an open stream may still read it."""

_REFUSED = frozenset({401, 403, 404})


async def guarded(items: AsyncGenerator[Item], check: Callable[[], Awaitable[object]]) -> AsyncIterator[Item]:
    """Yield items for as long as their caller may read them.

    The stream also ends when the token is removed or expires, or when the session ends. The stream continues while the
    database or the issuer does not answer.
    """
    following: asyncio.Future[Item | None] | None = None
    looked = monotonic()
    try:
        while True:
            following = following or asyncio.ensure_future(_next(items))
            await asyncio.wait([following], timeout=max(0.0, looked + LOOK_SECONDS - monotonic()))
            if monotonic() - looked >= LOOK_SECONDS:
                try:
                    await check()
                except AwayError:
                    pass
                except Failure as failure:
                    if failure.status in _REFUSED:
                        return
                looked = monotonic()
            if following.done():
                item, following = following.result(), None
                if item is None:
                    return
                yield item
    finally:
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        await items.aclose()


async def _next(items: AsyncGenerator[Item]) -> Item | None:
    return await anext(items, None)
