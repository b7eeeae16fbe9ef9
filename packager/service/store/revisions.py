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
    read,
    templates,
)
from packager.service.times import now

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from sqlalchemy import Connection, Select, Table

    from packager.service.store.databases import Database

    Revision = TypeVar("Revision", bound=StoredTemplate)

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

    def add_template(self, new: StoredTemplate) -> StoredTemplate:
        """Store the first revision of a template. Raises ExistsError."""
        return self._add(templates, new)

    def add_definition(self, new: StoredDefinition) -> StoredDefinition:
        """Store the first revision of a definition. Raises ExistsError."""
        return self._add(definitions, new)

    def _add(self, table: Table, new: Revision) -> Revision:
        with self._database.writing() as connection:
            last = _last(connection, table, new)
            if last is not None and last.is_current:
                raise ExistsError(f"{new.name!r} already exists")
            return _add_revision(connection, table, new, last)

    def change_template(self, new: StoredTemplate, expected: int | None) -> StoredTemplate | None:
        """Store the next revision of a template, unless it equals the last one, and return the current revision.

        Raises MismatchError.

        Returns:
            The current revision; None if the template does not exist.
        """
        return self._change(templates, new, expected)

    def change_definition(self, new: StoredDefinition, expected: int | None) -> StoredDefinition | None:
        """Store the next revision of a definition; see `change_template`."""
        return self._change(definitions, new, expected)

    def _change(self, table: Table, new: Revision, expected: int | None) -> Revision | None:
        with self._database.writing() as connection:
            last = _last(connection, table, new)
            if last is None or not last.is_current:
                return None
            if expected is not None and expected != last.revision:
                raise MismatchError(f"expected revision {expected}, found {last.revision}")
            if is_same(last, new):
                return last
            connection.execute(update(table).where(table.c.name == new.name).values(is_current=False))
            return _add_revision(connection, table, new, last)

    def templates(self) -> list[StoredTemplate]:
        """Return the current revision of each template, by name."""
        statement = select(templates).where(templates.c.is_current).order_by(templates.c.name)
        return self._database.rows(StoredTemplate, statement)

    def definitions(
        self, projects: Sequence[str] | None = None, *, template: str | None = None
    ) -> list[StoredDefinition]:
        """Return the current revision of each definition, by name.

        Args:
            projects: The projects whose definitions are returned, beside those of all projects; None for all.
            template: The template of the definitions; None for any.
        """
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
        return self._revision(StoredTemplate, templates, name, revision)

    def definition(self, name: str, revision: int | None = None) -> StoredDefinition | None:
        """Return a revision of a definition, or the current one; None if it does not exist."""
        return self._revision(StoredDefinition, definitions, name, revision)

    def _revision(self, kind: type[Revision], table: Table, name: str, revision: int | None) -> Revision | None:
        if revision is not None and revision > _MOST:
            return None
        which = table.c.is_current if revision is None else table.c.revision == revision
        return self._database.row(kind, select(table).where(table.c.name == name, which).limit(1))

    def template_revisions(self, name: str) -> list[StoredTemplate]:
        """Return all revisions of a template, the newest first."""
        return self._database.rows(StoredTemplate, _revisions(templates, name))

    def definition_revisions(self, name: str) -> list[StoredDefinition]:
        """Return all revisions of a definition, the newest first."""
        return self._database.rows(StoredDefinition, _revisions(definitions, name))

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


def _last(connection: Connection, table: Table, new: Revision) -> Revision | None:
    """Return the last revision of the name of a new one; None if there is none."""
    return next(iter(read(connection, type(new), _revisions(table, new.name).limit(1))), None)


def _add_revision(connection: Connection, table: Table, new: Revision, last: Revision | None) -> Revision:
    """Store a revision after the last one, and return it."""
    revision = replace(new, revision=last.revision + 1 if last else 1, created=now())
    connection.execute(insert(table).values(columns(revision)))
    return revision


def _revisions(table: Table, name: str) -> Select[*tuple[object, ...]]:
    """Return the statement that selects all revisions of a name, the newest first."""
    return select(table).where(table.c.name == name).order_by(table.c.revision.desc())
