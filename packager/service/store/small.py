"""The SQL statements for tokens, kept logs and curves. Tests: service/store/test_store.py."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from packager.base.errors import MlpackError
from packager.service.store.databases import AwayError
from packager.service.store.models import StoredLog, StoredToken, columns, jobs, logs, metrics, now, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

    from packager.service.store.databases import Database


class TokensFullError(MlpackError):
    """The project has its maximum number of tokens."""


class StoredTokens:
    """The tokens of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: StoredToken, most: int | None = None) -> None:
        """Store a token. Raises TokensFullError if its project has `most` tokens, expired ones included."""
        with self._database.writing() as connection:
            if most is not None and token.project is not None:
                counted = select(func.count()).where(tokens.c.project == token.project)
                count = int(connection.execute(counted).scalar_one())
                if count >= most:
                    raise TokensFullError(f"the project {token.project!r} has {count:,} tokens: remove some")
            connection.execute(insert(tokens).values(columns(token)))

    def all(self, projects: Sequence[str] | None = None) -> list[StoredToken]:
        """Return the tokens of some projects, or all tokens for None, the oldest first."""
        statement = select(tokens).order_by(tokens.c.created)
        if projects is not None:
            statement = statement.where(tokens.c.project.in_(projects))
        return self._database.rows(StoredToken, statement)

    def by_digest(self, digest: str) -> StoredToken | None:
        """Return the token with a digest; None if it does not exist."""
        return self._database.row(StoredToken, select(tokens).where(tokens.c.digest == digest))

    def by_id(self, identifier: str) -> StoredToken | None:
        """Return the token with an id; None if it does not exist."""
        return self._database.row(StoredToken, select(tokens).where(tokens.c.id == identifier))

    def use(self, identifier: str) -> None:
        """Record the use of a token, unless another transaction is open or the database refuses it.

        The request with the token must neither wait nor fail. A later use is recorded.
        """
        with suppress(AwayError, SQLAlchemyError), self._database.writing(waits=False) as connection:
            connection.execute(update(tokens).where(tokens.c.id == identifier).values(last_used=now()))

    def remove(self, identifier: str, projects: Sequence[str] | None = None) -> bool:
        """Remove a token, only of some projects unless they are None; return whether it existed."""
        statement = delete(tokens).where(tokens.c.id == identifier)
        if projects is not None:
            statement = statement.where(tokens.c.project.in_(projects))
        with self._database.writing() as connection:
            return bool(connection.execute(statement).rowcount)


class KeptLogs:
    """The kept logs of a server's jobs; they are deleted with their job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, log: StoredLog) -> None:
        """Store a log, in place of an earlier one of the same container; do nothing if the job was deleted."""
        with self._database.writing() as connection:
            if _exists(connection, log.release):
                connection.execute(delete(logs).where(_same(log)))
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


class Measured:
    """The curves of a server's jobs, which outlive pods and logs; they are deleted with their job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_job(self, release: str) -> str | None:
        """Return the curves of a job, as JSON; None without any."""
        with self._database.reading() as connection:
            body = connection.execute(select(metrics.c.body).where(metrics.c.release == release)).scalar()
            return None if body is None else str(body)

    def of_jobs(self, releases: Sequence[str]) -> dict[str, str]:
        """Return the curves of each of some jobs that has any, as JSON."""
        with self._database.reading() as connection:
            rows = connection.execute(select(metrics).where(metrics.c.release.in_(releases)))
            return {str(release): str(body) for release, body in rows}

    def keep(self, release: str, body: str) -> None:
        """Store the curves of a job, in place of earlier ones; do nothing if the job was deleted."""
        with self._database.writing() as connection:
            if _exists(connection, release):
                connection.execute(delete(metrics).where(metrics.c.release == release))
                connection.execute(insert(metrics).values(release=release, body=body))


def _exists(connection: Connection, release: str) -> bool:
    return connection.execute(select(jobs.c.release).where(jobs.c.release == release)).first() is not None


def _same(log: StoredLog) -> ColumnElement[bool]:
    own = (log.release, log.pod, log.container, log.instance)
    return and_(*(column == value for column, value in zip(logs.primary_key, own, strict=True)))
