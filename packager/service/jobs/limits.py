"""Refuses jobs with too many pods, and new jobs of callers and projects that have too many or use too much space."""

from __future__ import annotations

import asyncio
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import Manifest
from packager.service.complaints import Complaint
from packager.service.failures import RETRY_SECONDS, Failure, over_limit
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.kubernetes.objects import Object
    from packager.service.config import LimitsConfig
    from packager.service.store.store import Store
    from packager.service.store.usage import Taken

_SECONDS = RETRY_SECONDS[429]
"""The seconds for which values from the database are used: until a refused request may be repeated."""


class Room:
    """The room that projects and callers have for jobs.

    Args:
        store: The database.
        limits: The limits of the server.
    """

    def __init__(self, store: Store, limits: LimitsConfig) -> None:
        self._store = store
        self._limits = limits
        self._read: dict[str, tuple[float, Taken]] = {}
        self._added: dict[str, Counter[str]] = {}

    async def check(self, project: str, owner: str) -> None:
        """Raise Failure if there is no room for a new job."""
        taken, added = await self._taken(project), self._added[project]
        own = taken.unfinished.get(owner, 0) + added[owner]
        total = sum(taken.unfinished.values()) + added.total()
        limits = self._limits
        if own >= limits.caller_jobs:
            raise over_limit("caller_jobs", f"{own:,} jobs of the caller in project {project!r} have not ended")
        if total >= limits.project_jobs:
            raise over_limit("project_jobs", f"{total:,} jobs of the project {project!r} have not ended")
        if taken.size >= limits.project_mib << 20:
            size = f"jobs and logs of the project {project!r} take {taken.size >> 20:,} MiB"
            raise over_limit("project_mib", f"{size}: delete some jobs")

    def check_pods(self, objects: Iterable[Object]) -> None:
        """Raise Failure if the objects of a job start more pods at once than the server permits.

        The pods of all projects are kept by the same API server.
        """
        count = sum(pods.count for item in objects for pods in structures.pods(Manifest(item)))
        if count > self._limits.job_pods:
            detail = f"the job starts {count:,} pods, and limits.job_pods of the server is {self._limits.job_pods:,}"
            raise Failure("policy", detail, [Complaint("", detail)])

    def add(self, project: str, owner: str) -> None:
        """Count a new job."""
        self._added[project][owner] += 1

    async def _taken(self, project: str) -> Taken:
        """Return the use by a project, which was read at most `_SECONDS` ago."""
        time, taken = self._read.get(project, (0.0, None))
        if taken is None or monotonic() - time > _SECONDS:
            if taken is not None:
                self._read[project] = (monotonic(), taken)  # one request reads; the others use the old values
            taken = await asyncio.to_thread(self._store.taken, project)
            self._read[project], self._added[project] = (monotonic(), taken), Counter()
        return taken
