"""The SQL statements for templates and definitions, stored as revisions. Tests: service/store/test_store.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, update

from packager.base.errors import MlpackError
from packager.base.values import replace
from packager.service.store import prepared
from packager.service.store.rows import StoredDefinition, StoredTemplate, columns, read
from packager.service.store.tables import definitions, templates
from packager.service.times import now

if TYPE_CHECKING:
    from typing import TypeVar

    from sqlalchemy import Connection, Select, Table

    from packager.service.store.databases import Database

    Revision = TypeVar("Revision", bound=StoredTemplate)

PACKAGE = "package:"
"""The start of the names of rendered packages in the table `templates`; names of templates cannot contain a colon."""

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

    def add_template(self, name: str, body: str, author: str) -> StoredTemplate:
        """Store the first revision of a template. Raises ExistsError."""
        return self._add(templates, StoredTemplate(name=name, body=body, author=author))

    def add_definition(
        self, name: str, template: str, body: str, author: str, package: str | None = None
    ) -> StoredDefinition:
        """Store the first revision of a definition, and its rendered package. Raises ExistsError."""
        new = StoredDefinition(name=name, template=template, body=body, author=author)
        return self._add(definitions, new, package)

    def _add(self, table: Table, new: Revision, package: str | None = None) -> Revision:
        with self._database.writing() as connection:
            _add_package(connection, new, package)
            last = _last(connection, table, new)
            if last is not None and last.is_current:
                raise ExistsError(f"{new.name!r} already exists")
            return _add_revision(connection, table, new, last)

    def change_template(self, name: str, body: str, author: str, expected: int | None) -> StoredTemplate | None:
        """Store the next revision of a template, unless it equals the last one, and return the current revision.

        Returns:
            The current revision; None if the template does not exist.

        Raises:
            MismatchError: The last revision is not the expected one.
        """
        return self._change(templates, StoredTemplate(name=name, body=body, author=author), expected)

    def change_definition(
        self, new: StoredDefinition, package: str | None, expected: int | None
    ) -> StoredDefinition | None:
        """Store the next revision of a definition and its rendered package; see `change_template`."""
        return self._change(definitions, new, expected, package)

    def package(self, name: str) -> StoredTemplate | None:
        """Return a rendered package; None if `name` is the name of a template."""
        if not name.startswith(PACKAGE):
            return None
        return self._database.row(StoredTemplate, select(templates).where(templates.c.name == name).limit(1))

    def _change(self, table: Table, new: Revision, expected: int | None, package: str | None = None) -> Revision | None:
        with self._database.writing() as connection:
            last = _last(connection, table, new)
            if last is None or not last.is_current:
                return None
            if expected is not None and expected != last.revision:
                raise MismatchError(f"expected revision {expected}, found {last.revision}")
            if is_same(last, new):
                return last
            _add_package(connection, new, package)
            connection.execute(update(table).where(table.c.name == new.name).values(is_current=False))
            return _add_revision(connection, table, new, last)

    def templates(self) -> list[StoredTemplate]:
        """Return the current revision of each template, by name."""
        return self._database.rows(
            StoredTemplate, select(templates).where(templates.c.is_current).order_by(templates.c.name)
        )

    def definitions(self) -> list[StoredDefinition]:
        """Return the current revision of each definition, by name."""
        statement = select(definitions).where(definitions.c.is_current).order_by(definitions.c.name)
        return self._database.rows(StoredDefinition, statement)

    def count_definitions(self, start: str) -> tuple[int, int]:
        """Return the number of definitions whose names begin with a text, and of their and removed ones' revisions."""
        counted = select(func.count().filter(definitions.c.is_current), func.count())
        with self._database.reading() as connection:
            current, total = connection.execute(counted.where(definitions.c.name.startswith(start))).one()
        return int(current), int(total)

    def template(self, name: str, revision: int | None = None) -> StoredTemplate | None:
        """Return a revision of a template, or the current one; None if it does not exist."""
        return None if name.startswith(PACKAGE) else self._revision(StoredTemplate, templates, name, revision)

    def definition(self, name: str, revision: int | None = None) -> StoredDefinition | None:
        """Return a revision of a definition, or the current one; None if it does not exist."""
        return self._revision(StoredDefinition, definitions, name, revision)

    def _revision(self, kind: type[Revision], table: Table, name: str, revision: int | None) -> Revision | None:
        if revision is None:
            return self._database.row(kind, prepared.current(table), name=name)
        if revision > _MOST:
            return None
        return self._database.row(kind, prepared.revision(table), name=name, number=revision)

    def template_revisions(self, name: str) -> list[StoredTemplate]:
        """Return all revisions of a template, the newest first."""
        return [] if name.startswith(PACKAGE) else self._database.rows(StoredTemplate, _revisions(templates, name))

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
            return self._retire(connection, templates, name)

    def remove_definition(self, name: str) -> bool:
        """Remove a definition, and return whether it existed; its jobs stay unchanged."""
        with self._database.writing() as connection:
            return self._retire(connection, definitions, name)

    @staticmethod
    def _retire(connection: Connection, table: Table, name: str) -> bool:
        statement = update(table).where(table.c.name == name, table.c.is_current).values(is_current=False)
        return bool(connection.execute(statement).rowcount)


def _add_package(connection: Connection, new: StoredTemplate, content: str | None) -> None:
    """Store the rendered package of a definition, unless it is already stored; it is never changed."""
    if content is None or not isinstance(new, StoredDefinition):
        return
    stored = select(templates.c.name).where(templates.c.name == new.template).limit(1)
    if connection.execute(stored).first() is None:
        package = StoredTemplate(name=new.template, body=content, author=new.author, is_current=False, created=now())
        connection.execute(insert(templates).values(columns(package)))


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
