"""What callers do with jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.jobs import records

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.service.access.tokens import Caller
    from packager.service.jobs.tasks import Tasks
    from packager.service.sealing import Sealer
    from packager.service.store.store import Row, Store


class Jobs:
    """The use cases of jobs. Each raises Failure if its caller may not do it.

    Args:
        store: The database.
        tasks: Creates and stops jobs.
        sealer: Decrypts headers and secrets.
    """

    def __init__(self, store: Store, tasks: Tasks, sealer: Sealer) -> None:
        self._store = store
        self._tasks = tasks
        self._sealer = sealer

    async def rerun(self, caller: Caller, release: str, *, is_pinned: bool, answer: Callable[[Row], Row | None]) -> Row:
        """Create a job from the values of another one: of the caller, or of a project in which they act for others.

        Args:
            caller: Who asks for it.
            release: The other job.
            is_pinned: Whether the revisions of the other job are used instead of the current ones.
            answer: Returns the answer to the request, if it has an idempotency key, from the new job.

        Raises:
            Failure: As `Tasks.create`; or the other job has secrets of others.
        """
        row = await self._tasks.job(release, caller, "user")
        permissions.check_owns_job(caller, row, "run jobs of others again")
        await asyncio.to_thread(self._check_knows_secrets, caller, row)
        project = self._tasks.project(row["project"], caller)
        filled = await asyncio.to_thread(records.filled_values, row, self._sealer)
        revisions = (row["definition_revision"], row["template_revision"]) if is_pinned else None
        return await self._tasks.create(filled, caller, project, answer, revisions)

    def _check_knows_secrets(self, caller: Caller, row: Row) -> None:
        """Refuse to give the secrets of a job to others than its owner and who has filled them in.

        Those who act for others may change the definition, and so send the secrets of a copy to an image of their own.
        """
        if caller.is_trusted or not self._sealer.open(row["secrets"], row["release"]):
            return
        created = self._store.events(row["release"], limit=1)
        if caller.name not in (row["creator"], *(event["actor"] for event in created)):
            detail = f"the job has headers or secrets of others: only {row['creator']} runs it again"
            raise Failure("forbidden", detail)
