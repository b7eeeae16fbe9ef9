"""The statements on the curves of jobs, which stay when the pods and their logs are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from packager.service.store.tables import jobs, metrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection


class Measured:
    """The curves of a server's jobs; they are deleted with their job.

    Args:
        writing: Begins a transaction that writes.
        reading: Begins one that reads.
    """

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Connection]],
        reading: Callable[[], AbstractContextManager[Connection]],
    ) -> None:
        self._writing = writing
        self._reading = reading

    def of_job(self, release: str) -> str | None:
        """Return what was measured of a job, as JSON; None if nothing was."""
        with self._reading() as connection:
            body = connection.execute(select(metrics.c.body).where(metrics.c.release == release)).scalar()
            return None if body is None else str(body)

    def keep(self, release: str, body: str) -> None:
        """Store what was measured of a job in place of what was known; nothing if the job was deleted."""
        with self._writing() as connection:
            if connection.execute(select(jobs.c.release).where(jobs.c.release == release)).first() is None:
                return
            if not connection.execute(update(metrics).where(metrics.c.release == release).values(body=body)).rowcount:
                connection.execute(insert(metrics).values(release=release, body=body))
