"""The SQL statements for curves of jobs, which are kept after the deletion of pods and logs."""

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
        writing: Begins a write transaction.
        reading: Begins a read transaction.
    """

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Connection]],
        reading: Callable[[], AbstractContextManager[Connection]],
    ) -> None:
        self._writing = writing
        self._reading = reading

    def of_job(self, release: str) -> str | None:
        """Return the curves of a job, as JSON; None without any."""
        with self._reading() as connection:
            body = connection.execute(select(metrics.c.body).where(metrics.c.release == release)).scalar()
            return None if body is None else str(body)

    def keep(self, release: str, body: str) -> None:
        """Store the curves of a job, in place of earlier ones; do nothing if the job was deleted."""
        with self._writing() as connection:
            if connection.execute(select(jobs.c.release).where(jobs.c.release == release)).first() is None:
                return
            if not connection.execute(update(metrics).where(metrics.c.release == release).values(body=body)).rowcount:
                connection.execute(insert(metrics).values(release=release, body=body))
