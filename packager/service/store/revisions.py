"""The SQL statements for templates and definitions, stored as revisions. Tests: service/store/test_store.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, insert, or_, select, update

from packager.base.errors import MlpackError
from packager.base.values import replace
from packager.service.store.models import (
    StoredDefinition,
    StoredTemplate,
    columns,
    definitions,
    now,
    read,
    templates,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from sqlalchemy import Connection, Select, Table

    from packager.service.store.databases import Database

    Revision = TypeVar("Revision", bound=StoredTemplate)

_TABLES: Mapping[type, Table] = {StoredTemplate: templates, StoredDefinition: definitions}

_MOST = (1 << 63) - 1
"""The largest integer in the database."""


class ExistsError(MlpackError):
    """The name is already used."""


class MismatchError(MlpackError):
    """The object does not have the revision that the caller expects."""


class InUseError(MlpackError):
    """The object is used by other objects."""


def is_same(stored: Revision, new: Revision) -> bool:
    """Whether a current revision of a template or a definition equals a new one, regardless of the author."""
    return replace(stored, author=new.author, revision=new.revision, created=new.created) == new


class Revisions:
    """The templates and the definitions of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Revision) -> Revision:
        """Store the first revision of a template or a definition. Raises ExistsError."""
        with self._database.writing() as connection:
            last = _last(connection, new)
            if last is not None and last.is_current:
                raise ExistsError(f"{new.name!r} already exists")
            return _add_revision(connection, new, last)

    def change(self, new: Revision, expected: int | None) -> Revision | None:
        """Store the next revision, unless it equals the last one, and return the current one; None if none exists.

        Raises MismatchError.
        """
        with self._database.writing() as connection:
            last = _last(connection, new)
            if last is None or not last.is_current:
                return None
            if expected is not None and expected != last.revision:
                raise MismatchError(f"expected revision {expected}, found {last.revision}")
            if is_same(last, new):
                return last
            table = _TABLES[type(new)]
            connection.execute(update(table).where(table.c.name == new.name).values(is_current=False))
            return _add_revision(connection, new, last)

    def templates(self) -> list[StoredTemplate]:
        """Return the current revision of each template, by name."""
        statement = select(templates).where(templates.c.is_current).order_by(templates.c.name)
        return self._database.rows(StoredTemplate, statement)

    def definitions(
        self, projects: Sequence[str] | None = None, *, template: str | None = None
    ) -> list[StoredDefinition]:
        """Return the current revision of each definition, by name."""
        statement = select(definitions).where(definitions.c.is_current).order_by(definitions.c.name)
        if projects is not None:
            statement = statement.where(or_(definitions.c.project.is_(None), definitions.c.project.in_(projects)))
        if template is not None:
            statement = statement.where(definitions.c.template == template)
        return self._database.rows(StoredDefinition, statement)

    def names(self, project: str) -> list[str]:
        """Return the names of the definitions that jobs of a project can use."""
        own = or_(definitions.c.project.is_(None), definitions.c.project == project)
        with self._database.reading() as connection:
            return list(connection.execute(select(definitions.c.name).where(definitions.c.is_current, own)).scalars())

    def count_definitions(self, project: str) -> tuple[int, int]:
        """Return the number of definitions of a project, and of their and removed ones' revisions."""
        counted = select(func.count().filter(definitions.c.is_current), func.count())
        with self._database.reading() as connection:
            current, total = connection.execute(counted.where(definitions.c.project == project)).one()
        return int(current), int(total)

    def template(self, name: str, revision: int | None = None) -> StoredTemplate | None:
        """Return a revision of a template, or the current one; None if it does not exist."""
        return self._revision(StoredTemplate, name, revision)

    def definition(self, name: str, revision: int | None = None) -> StoredDefinition | None:
        """Return a revision of a definition, or the current one; None if it does not exist."""
        return self._revision(StoredDefinition, name, revision)

    def _revision(self, kind: type[Revision], name: str, revision: int | None) -> Revision | None:
        if revision is not None and revision > _MOST:
            return None
        table = _TABLES[kind]
        which = table.c.is_current if revision is None else table.c.revision == revision
        return self._database.row(kind, select(table).where(table.c.name == name, which).limit(1))

    def all(self, kind: type[Revision], name: str) -> list[Revision]:
        """Return all revisions of a template or a definition, the newest first."""
        return self._database.rows(kind, _revisions(kind, name))

    def remove_template(self, name: str) -> bool:
        """Remove a template, and return whether it existed; its jobs stay unchanged. Raises InUseError."""
        with self._database.writing() as connection:
            users = select(definitions.c.name).where(definitions.c.template == name, definitions.c.is_current)
            names = [str(row[0]) for row in connection.execute(users.limit(5))]
            if names:
                raise InUseError(f"the template {name!r} is used by the definitions {', '.join(names)}")
            return _retire(connection, templates, name)

    def remove_definition(self, name: str) -> bool:
        """Remove a definition, and return whether it existed; its jobs stay unchanged."""
        with self._database.writing() as connection:
            return _retire(connection, definitions, name)


def _retire(connection: Connection, table: Table, name: str) -> bool:
    statement = update(table).where(table.c.name == name, table.c.is_current).values(is_current=False)
    return bool(connection.execute(statement).rowcount)


def _last(connection: Connection, new: Revision) -> Revision | None:
    """Return the last revision of the name of a new one; None if there is none."""
    return next(iter(read(connection, type(new), _revisions(type(new), new.name).limit(1))), None)


def _add_revision(connection: Connection, new: Revision, last: Revision | None) -> Revision:
    """Store a revision after the last one, and return it."""
    revision = replace(new, revision=last.revision + 1 if last else 1, created=now())
    connection.execute(insert(_TABLES[type(new)]).values(columns(revision)))
    return revision


def _revisions(kind: type[StoredTemplate], name: str) -> Select[*tuple[object, ...]]:
    """Return the statement that selects all revisions of a name, the newest first."""
    table = _TABLES[kind]
    return select(table).where(table.c.name == name).order_by(table.c.revision.desc())
