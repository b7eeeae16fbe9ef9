"""The SQL statements for kept logs of jobs, which are compressed. Tests: service/jobs/test_kept_logs.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, insert, select, update

from packager.service.store.rows import StoredLog, columns
from packager.service.store.tables import jobs, logs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from packager.service.store.databases import Database


class KeptLogs:
    """The kept logs of a server's jobs; they are deleted with their job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, log: StoredLog) -> None:
        """Store a log, in place of an earlier one of the same container; do nothing if the job was deleted."""
        with self._database.writing() as connection:
            if connection.execute(select(jobs.c.release).where(jobs.c.release == log.release)).first() is None:
                return
            if not connection.execute(update(logs).where(_same(log)).values(columns(log))).rowcount:
                connection.execute(insert(logs).values(columns(log)))

    def of_job(self, release: str) -> list[StoredLog]:
        """Return the logs of a job without their texts, by pod and container."""
        parts = [column for column in logs.c if column.name != "content"]
        statement = select(*parts).where(logs.c.release == release).order_by(logs.c.pod, logs.c.place)
        return self._database.rows(StoredLog, statement)

    def content(self, log: StoredLog) -> bytes:
        """Return the compressed text of a log; empty if it does not exist."""
        with self._database.reading() as connection:
            return bytes(connection.execute(select(logs.c.content).where(_same(log))).scalar() or b"")

    def remove_before(self, time: str) -> int:
        """Remove the logs from before a time, and return their number."""
        with self._database.writing() as connection:
            return int(connection.execute(delete(logs).where(logs.c.time < time)).rowcount)


def _same(log: StoredLog) -> ColumnElement[bool]:
    own = (log.release, log.pod, log.container, log.instance)
    return and_(*(column == value for column, value in zip(logs.primary_key, own, strict=True)))
