"""The SQL statements for templates and definitions, stored as revisions. Tests: service/store/test_store.py."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from packager.base.values import as_dict, replace
from packager.service.failures import Failure, over_limit
from packager.service.store.databases import AwayError
from packager.service.store.models import (
    StoredDefinition,
    StoredLog,
    StoredTemplate,
    StoredToken,
    definitions,
    jobs,
    logs,
    metrics,
    now,
    read,
    templates,
    tokens,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from sqlalchemy import Connection, Select, Table

    from packager.service.store.databases import Database

    Revision = TypeVar("Revision", bound=StoredTemplate)
    from sqlalchemy import ColumnElement


_TABLES: Mapping[type, Table] = {StoredTemplate: templates, StoredDefinition: definitions}

_MOST = (1 << 63) - 1
"""The largest integer in the database."""


def is_same(stored: Revision, new: Revision) -> bool:
    """Whether a current revision of a template or a definition equals a new one, regardless of the author."""
    return replace(stored, author=new.author, revision=new.revision, created=new.created) == new


def _noun(kind: type[StoredTemplate]) -> str:
    return "definition" if kind is StoredDefinition else "template"


class Revisions:
    """The templates and the definitions of a server, by the types of their rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Revision) -> Revision:
        """Store the first revision of a template or a definition. Raises Failure if its name is used."""
        with self._database.writing() as connection:
            last = _last(connection, new)
            if last is not None and last.is_current:
                raise Failure("exists", f"the {_noun(type(new))} {new.name!r} already exists")
            return _add_revision(connection, new, last)

    def change(self, new: Revision, expected: int | None = None) -> Revision:
        """Store the next revision, unless it equals the last one, and return the current one.

        Raises Failure if there is none, or it has another number than the expected one.
        """
        with self._database.writing() as connection:
            last = _last(connection, new)
            if last is None or not last.is_current:
                raise not_found(type(new), new.name)
            if expected is not None and expected != last.revision:
                raise Failure("revision-mismatch", f"expected revision {expected}, found {last.revision}")
            if is_same(last, new):
                return last
            table = _TABLES[type(new)]
            connection.execute(update(table).where(table.c.name == new.name).values(is_current=False))
            return _add_revision(connection, new, last)

    def current(
        self, kind: type[Revision], projects: Sequence[str] | None = None, *, template: str | None = None
    ) -> list[Revision]:
        """Return the current revision of each name: of definitions only those of some projects, or over a template."""
        table = _TABLES[kind]
        statement = select(table).where(table.c.is_current).order_by(table.c.name)
        if projects is not None and kind is StoredDefinition:
            statement = statement.where(or_(table.c.project.is_(None), table.c.project.in_(projects)))
        if template is not None:
            statement = statement.where(table.c.template == template)
        return self._database.rows(kind, statement)

    def names(self, project: str) -> list[str]:
        """Return the names of the definitions that jobs of a project can use."""
        own = or_(definitions.c.project.is_(None), definitions.c.project == project)
        with self._database.reading() as connection:
            return list(connection.execute(select(definitions.c.name).where(definitions.c.is_current, own)).scalars())

    def find(self, kind: type[Revision], name: str, revision: int | None = None) -> Revision | None:
        """Return a revision of a template or a definition, or the current one; None if it does not exist."""
        if revision is not None and revision > _MOST:
            return None
        table = _TABLES[kind]
        which = table.c.is_current if revision is None else table.c.revision == revision
        return self._database.row(kind, select(table).where(table.c.name == name, which).limit(1))

    def get(self, kind: type[Revision], name: str, revision: int | None = None) -> Revision:
        """Return a revision of a template or a definition, or the current one. Raises Failure."""
        row = self.find(kind, name, revision)
        if row is None:
            raise not_found(kind, name, revision if revision is not None and self.all(kind, name) else None)
        return row

    def all(self, kind: type[Revision], name: str) -> list[Revision]:
        """Return all revisions of a template or a definition, the newest first."""
        return self._database.rows(kind, _revisions(kind, name))

    def remove(self, kind: type[StoredTemplate], name: str) -> None:
        """Remove a template or a definition, whose jobs stay. Raises Failure if there is none, or it is in use."""
        table = _TABLES[kind]
        with self._database.writing() as connection:
            users = select(definitions.c.name).where(definitions.c.template == name, definitions.c.is_current)
            names = [str(row[0]) for row in connection.execute(users.limit(5))] if kind is StoredTemplate else []
            if names:
                raise Failure("conflict", f"the template {name!r} is used by the definitions {', '.join(names)}")
            retired = update(table).where(table.c.name == name, table.c.is_current).values(is_current=False)
            if not connection.execute(retired).rowcount:
                raise not_found(kind, name)


def not_found(kind: type[StoredTemplate], name: str, revision: int | None = None) -> Failure:
    """Return the error for a template or a definition, or a revision of one, that does not exist."""
    shown = f"{_noun(kind)} {name!r} not found"
    return Failure("not-found", shown if revision is None else f"revision {revision} of {shown}")


def _last(connection: Connection, new: Revision) -> Revision | None:
    """Return the last revision of the name of a new one; None if there is none."""
    return next(iter(read(connection, type(new), _revisions(type(new), new.name).limit(1))), None)


def _add_revision(connection: Connection, new: Revision, last: Revision | None) -> Revision:
    """Store a revision after the last one, and return it."""
    revision = replace(new, revision=last.revision + 1 if last else 1, created=now())
    connection.execute(insert(_TABLES[type(new)]).values(as_dict(revision)))
    return revision


def _revisions(kind: type[StoredTemplate], name: str) -> Select[*tuple[object, ...]]:
    """Return the statement that selects all revisions of a name, the newest first."""
    table = _TABLES[kind]
    return select(table).where(table.c.name == name).order_by(table.c.revision.desc())


class StoredTokens:
    """The tokens of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: StoredToken, most: int | None = None) -> None:
        """Store a token. Raises Failure if its project has `most` tokens, expired ones included."""
        with self._database.writing() as connection:
            if most is not None and token.project is not None:
                counted = select(func.count()).where(tokens.c.project == token.project)
                count = int(connection.execute(counted).scalar_one())
                if count >= most:
                    detail = f"the project {token.project!r} has {count:,} tokens: remove some"
                    raise over_limit("project_tokens", detail)
            connection.execute(insert(tokens).values(as_dict(token)))

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
                connection.execute(insert(logs).values(as_dict(log)))

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
