"""Checks whether the server can work. Anyone may ask at any rate, and learns only whether it can."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.jobs.kube import Cluster
    from packager.service.store.store import Store

_SECONDS = 4.0
"""The time limit of the database and of the cluster."""

_ABSENT = "mlpack-readiness"
"""A ConfigMap that need not exist: a request for one name costs an API server less than a list."""


class Readiness:
    """Whether a server is ready, as of the last check."""

    def __init__(self, store: Store, cluster: Cluster, namespace: str, log: Callable[[str], None]) -> None:
        self.seconds = 5.0  # between two checks
        self.problems = ["nothing was checked yet"]
        self.away: str | None = None  # why the cluster does not answer; None if it does
        self._store = store
        self._cluster = cluster
        self._namespace = namespace
        self._log = log

    async def run(self) -> None:
        """Check again and again, until cancelled."""
        while True:
            problems = [*await self._of_database(), *await self._of_cluster()]
            if problems != self.problems:
                self._log(f"not ready: {'; '.join(problems)}" if problems else "ready")
            self.problems = problems
            await asyncio.sleep(self.seconds)

    async def _of_database(self) -> list[str]:
        try:
            async with asyncio.timeout(_SECONDS):
                await asyncio.to_thread(self._store.check_writable)
        except TimeoutError:
            return ["the database has not answered in time"]
        except ToolError as error:
            return [str(error)]
        except Exception as error:  # noqa: BLE001 - a server whose database fails in any way is not ready
            return [f"{type(error).__name__}: {error}"]
        return []

    async def _of_cluster(self) -> list[str]:
        try:
            async with asyncio.timeout(_SECONDS):
                await self._cluster.get("ConfigMap", _ABSENT, self._namespace)
            self.away = None
        except TimeoutError:
            self.away = "the cluster has not answered in time"
        except ClusterError as error:
            self.away = str(error)
        return [self.away] if self.away else []
