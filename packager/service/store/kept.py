"""The SQL statements for kept logs of jobs, which are compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, insert, select, update

from packager.service.store.tables import jobs, logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    Row = dict[str, Any]

_KEY = ("release", "pod", "container", "instance")


class KeptLogs:
    """The kept logs of a server's jobs; they are deleted with their job.

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

    def keep(self, release: str, rows: Iterable[Row]) -> None:
        """Store logs, in place of earlier ones of the same containers; do nothing if the job was deleted."""
        with self._writing() as connection:
            if connection.execute(select(jobs.c.release).where(jobs.c.release == release)).first() is None:
                return
            for row in rows:
                same = and_(*(logs.c[key] == row[key] for key in _KEY))
                if not connection.execute(update(logs).where(same).values(**row)).rowcount:
                    connection.execute(insert(logs).values(**row))

    def of_job(self, release: str) -> list[Row]:
        """Return the logs of a job without their texts, by pod and container."""
        columns = [column for column in logs.c if column.name != "content"]
        statement = select(*columns).where(logs.c.release == release).order_by(logs.c.pod, logs.c.place)
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def content(self, row: Row) -> bytes:
        """Return the compressed text of a log; empty if it does not exist."""
        statement = select(logs.c.content).where(*(logs.c[key] == row[key] for key in _KEY))
        with self._reading() as connection:
            return bytes(connection.execute(statement).scalar() or b"")

    def remove_before(self, time: str) -> int:
        """Remove the logs from before a time, and return their number."""
        with self._writing() as connection:
            return int(connection.execute(delete(logs).where(logs.c.time < time)).rowcount)
