"""Checks whether the server can work. Anyone may ask at any rate, and learns only whether it can."""

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
"""The seconds for which a result is reused."""

_SECONDS = 4.0
"""The time limit of the database and the cluster: a kubelet waits for five seconds."""

_PATIENCE = 0.5
"""The seconds for which a view waits for the first result."""

_ABSENT = "mlpack-readiness"
"""A ConfigMap that need not exist: a request for one name costs an API server less than a list."""


class Readiness:
    """The check whether a server is ready."""

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
        self._away: str | None = None

    async def is_ready(self) -> bool:
        """Return whether the database and the cluster answer; the result may be five seconds old.

        Simultaneous callers share one check.
        """
        look = self._current()
        if not look.done():
            await asyncio.wait([look], timeout=_SECONDS)
        if not look.done():
            self._tell(["the database or the cluster has not answered in time"])
            return False
        self._tell(look.result())
        return not look.result()

    async def away(self) -> str | None:
        """Return why the cluster does not answer; None if it does. The result may be that of an earlier check.

        Only the first check is waited for, so that a slow cluster does not slow down the views.
        """
        is_first = self._look is None
        look = self._current()
        if is_first:
            await asyncio.wait([look], timeout=_PATIENCE)
        return self._away

    def _current(self) -> asyncio.Task[list[str]]:
        """Return the check that is at work, or the last one; start one if the last one is too old."""
        if self._look is None or (self._look.done() and self._clock() - self._looked_at >= _FRESH_SECONDS):
            self._looked_at = self._clock()
            self._look = asyncio.create_task(self._found_problems())
        return self._look

    async def _found_problems(self) -> list[str]:
        problems = []
        try:
            await asyncio.to_thread(self._store.check_writable)
        except ToolError as error:
            problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - a server whose database fails in any way is not ready
            problems.append(f"{type(error).__name__}: {error}")
        try:
            await self._cluster.get("ConfigMap", _ABSENT, self._namespace)
            self._away = None
        except ClusterError as error:
            problems.append(str(error))
            self._away = str(error)
        return problems

    def _tell(self, problems: list[str]) -> None:
        if problems != self._problems:
            self._log(f"not ready: {'; '.join(problems)}" if problems else "ready again")
        self._problems = problems
