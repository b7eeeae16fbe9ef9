"""Deletes jobs and kept logs that are older than the retention times of the site."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base import durations
from packager.base.errors import MlpackError
from packager.service import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.config import RetentionConfig
    from packager.service.store.store import Store

_EVERY_SECONDS = 600.0
_AT_ONCE = 200

ACTOR = "retention"
"""The actor in the events of jobs that are deleted because of their age."""


class Sweeper:
    """Deletes old jobs and logs.

    Args:
        deleted: Called with the release of a job whose deletion was requested.
    """

    def __init__(
        self,
        store: Store,
        retention: RetentionConfig,
        deleted: Callable[[str], None],
        log: Callable[[str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._retention = retention
        self._deleted = deleted
        self._log = log
        self._clock = clock

    async def run(self) -> None:
        """Delete old jobs and logs now and every ten minutes, until cancelled."""
        while True:
            try:
                await self.sweep()
            except MlpackError as error:
                self._log(f"what is too old cannot be deleted: {error}")
            await asyncio.sleep(_EVERY_SECONDS)

    async def sweep(self) -> None:
        """Delete old logs, and request the deletion of old jobs with their objects, except claims."""
        logs = times.as_text(self._clock() - durations.duration(self._retention.logs))
        if count := await asyncio.to_thread(self._store.logs.remove_before, logs):
            self._log(f"{count} logs from before {logs} were deleted")
        if self._retention.jobs is None:
            return
        ended = times.as_text(self._clock() - durations.duration(self._retention.jobs))
        for release in await asyncio.to_thread(self._store.ended_before, ended, _AT_ONCE):
            await asyncio.to_thread(self._store.want, release, "delete", ACTOR)
            self._log(f"{release}: ended before {ended}, is deleted")
            self._deleted(release)
