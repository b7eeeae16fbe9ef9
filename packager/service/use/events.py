"""What callers read of events: the changes of the status of jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.store.store import FINAL
from packager.service.use.answers import EventList, JobEvent
from packager.service.use.streams import guarded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from packager.service.access.tokens import Caller
    from packager.service.jobs.pulse import Pulse
    from packager.service.store.store import Store

    Authenticate = Callable[[], Awaitable[Caller]]

_SILENCE = 15.0
"""Seconds after which nothing is told too, so that proxies keep a stream open."""

_MOST = 1000


class JobEvents:
    """The use cases of events.

    Args:
        store: The database.
        pulse: Tells that a job has an event.
    """

    def __init__(self, store: Store, pulse: Pulse) -> None:
        self._store = store
        self._pulse = pulse

    async def read(self, caller: Caller, release: str | None, after: int = 0) -> EventList:
        """Return the events of a job, or for None of all jobs that the caller may see, the oldest first.

        Args:
            caller: Who.
            release: Whose.
            after: The id of the last one that is known.

        Raises:
            Failure: The caller may not see the job.
        """
        projects = await self._projects(caller, release)
        rows = await asyncio.to_thread(self._store.events, release, after, _MOST, projects)
        following = str(rows[-1]["id"]) if len(rows) == _MOST else None
        return EventList(items=[JobEvent(**row) for row in rows], next=following)

    async def follow(
        self, authenticate: Authenticate, release: str | None, after: int = 0
    ) -> AsyncIterator[Sequence[JobEvent]]:
        """Return events as they come, as `read` does; none if nothing has changed for a while.

        Those of a job end with the job, and all of them when the caller may see others than at the start.

        Args:
            authenticate: Returns the caller; it is asked again while events are followed.
            release: Whose.
            after: The id of the last one that is known.
        """
        projects = await self._projects(await authenticate(), release)

        async def check() -> None:
            if await self._projects(await authenticate(), release) != projects:
                raise Failure("forbidden", "the roles of the caller have changed")

        return guarded(self._followed(release, after, projects), check)

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
        while True:
            generation = self._pulse.generation
            # The job is read before its events: the last one is stored together with its end.
            job = await asyncio.to_thread(self._store.job, release) if release is not None else None
            rows = await asyncio.to_thread(self._store.events, release, after, _MOST, projects)
            if rows:
                after = rows[-1]["id"]
                yield [JobEvent(**row) for row in rows]
            elif release is not None and (job is None or job["status"] in FINAL):
                return
            elif not await self._pulse.wait(generation, _SILENCE):
                yield []
