"""Deletes the records and the kept logs of jobs that are older than the site wants them to be."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.service import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.config import RetentionConfig
    from packager.service.store.store import Store

_EVERY_SECONDS = 600.0
_AT_ONCE = 200

ACTOR = "retention"
"""Who deletes a job that is too old, in its events and the log."""


class Sweeper:
    """Deletes what is too old.

    Args:
        store: What is stored.
        retention: How long it is kept.
        deleted: Called with the release of a job that is to be deleted.
        log: Writes a line of the log.
        clock: Returns the time.
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
        """Delete what is too old, now and every ten minutes, until cancelled."""
        while True:
            try:
                await self.sweep()
            except MlpackError as error:
                self._log(f"what is too old cannot be deleted: {error}")
            await asyncio.sleep(_EVERY_SECONDS)

    async def sweep(self) -> None:
        """Delete what is too old: logs, and jobs with their objects; claims stay."""
        logs = times.as_text(self._clock() - times.duration(self._retention.logs))
        if count := await asyncio.to_thread(self._store.logs.remove_before, logs):
            self._log(f"{count} logs from before {logs} were deleted")
        if self._retention.jobs is None:
            return
        ended = times.as_text(self._clock() - times.duration(self._retention.jobs))
        for release in await asyncio.to_thread(self._store.ended_before, ended, _AT_ONCE):
            await asyncio.to_thread(self._store.want, release, "delete", ACTOR)
            self._log(f"{release}: ended before {ended}, is deleted")
            self._deleted(release)
