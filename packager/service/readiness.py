"""Finds whether the server can do its work; anyone may ask as often as they like, and learns nothing else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.jobs.kube import Cluster
    from packager.service.store.store import Store

_FRESH_SECONDS = 5.0
"""For how long an answer is given again."""

_SECONDS = 4.0
"""How long the database and the cluster may take: a kubelet waits for five."""

_ABSENT = "mlpack-readiness"
"""A ConfigMap that need not exist: to look for one name costs an API server less than to list anything."""


class Readiness:
    """Whether a server is ready.

    Args:
        store: The database, which must take what is written to it.
        cluster: The cluster, which must answer.
        namespace: One in which jobs run.
        log: Writes a line of the log: what is wrong, whenever that has changed.
        clock: Tells the seconds since some moment in the past.
    """

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        namespace: str,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._namespace = namespace
        self._log = log
        self._clock = clock
        self._looked_at = float("-inf")
        self._look: asyncio.Task[list[str]] | None = None
        self._problems: list[str] = []

    async def is_ready(self) -> bool:
        """Return whether the database and the cluster answer: now, or as they did a few seconds ago.

        Those who ask at the same time wait for one answer.
        """
        if self._look is None or (self._look.done() and self._clock() - self._looked_at >= _FRESH_SECONDS):
            self._looked_at = self._clock()
            self._look = asyncio.create_task(self._found_problems())
        look = self._look
        if not look.done():
            await asyncio.wait([look], timeout=_SECONDS)
        if not look.done():
            self._tell(["the database or the cluster has not answered in time"])
            return False
        self._tell(look.result())
        return not look.result()

    async def _found_problems(self) -> list[str]:
        problems = []
        try:
            await asyncio.to_thread(self._store.check_writable)
        except ToolError as error:
            problems.append(str(error))
        try:
            await self._cluster.get("ConfigMap", _ABSENT, self._namespace)
        except ClusterError as error:
            problems.append(str(error))
        return problems

    def _tell(self, problems: list[str]) -> None:
        if problems != self._problems:
            self._log(f"not ready: {'; '.join(problems)}" if problems else "ready again")
        self._problems = problems
