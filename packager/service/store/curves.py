"""The SQL statements for curves of jobs, which outlive pods and logs. Tests: service/api/test_curves.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from packager.service.store.tables import jobs, metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.service.store.databases import Database


class Measured:
    """The curves of a server's jobs; they are deleted with their job."""

    def __init__(self, database: Database) -> None:
        self._writing, self._reading = database.writing, database.reading

    def of_job(self, release: str) -> str | None:
        """Return the curves of a job, as JSON; None without any."""
        with self._reading() as connection:
            body = connection.execute(select(metrics.c.body).where(metrics.c.release == release)).scalar()
            return None if body is None else str(body)

    def of_jobs(self, releases: Sequence[str]) -> dict[str, str]:
        """Return the curves of each of some jobs that has any, as JSON."""
        with self._reading() as connection:
            rows = connection.execute(select(metrics).where(metrics.c.release.in_(releases)))
            return {str(release): str(body) for release, body in rows}

    def keep(self, release: str, body: str) -> None:
        """Store the curves of a job, in place of earlier ones; do nothing if the job was deleted."""
        with self._writing() as connection:
            if connection.execute(select(jobs.c.release).where(jobs.c.release == release)).first() is None:
                return
            if not connection.execute(update(metrics).where(metrics.c.release == release).values(body=body)).rowcount:
                connection.execute(insert(metrics).values(release=release, body=body))
