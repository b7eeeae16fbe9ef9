"""Migrates a database to the newest schema, and refuses a database of a newer mlpack."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import func, insert, select, text

from packager.base.errors import ToolError
from packager.service.store.models import metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Table

    from packager.service.store.databases import Database


_FOLDER = Path(__file__).resolve().parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    return config


@cache
def versions() -> Sequence[str]:
    """Return the versions of the schema, the oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def current(connection: Connection) -> str | None:
    """Return the version of a database's schema; None for an empty database."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(connection: Connection, *, is_allowed: bool = True) -> bool:
    """Migrate the database to the newest schema, and return whether it had another one. Raises ToolError.

    Args:
        connection: The connection of a write transaction.
        is_allowed: Whether a schema of an older mlpack may be migrated; the schema of an empty database always may.
    """
    version = current(connection)
    own_versions = versions()
    if version == own_versions[-1]:
        return False
    if version is not None and version not in own_versions:
        message = f"the database has the schema {version}, which a newer mlpack has written"
        raise ToolError(message, hint="use that mlpack, or a backup of the database")
    if version is not None and not is_allowed:
        message = f"the database has the schema {version} of an older mlpack, whose server may be running"
        raise ToolError(
            message, hint="use that mlpack, or stop the server, and start the new one or `mlpack serve migrate`"
        )
    config = _config()
    config.attributes["connection"] = connection
    if version is None:
        metadata.create_all(connection)
        command.stamp(config, "head")
    else:
        command.upgrade(config, "head")
    return True


_AT_ONCE = 500
"""The number of rows that are read and written at a time."""


def copy(source: Database, target: Database) -> dict[str, int]:
    """Copy all rows in one transaction, and return the number of rows in each table. Raises ToolError."""
    tables = metadata.sorted_tables  # referenced tables come first
    with source.writing() as reading, target.writing() as writing:
        filled = [table.name for table in tables if _count(writing, table)]
        if filled:
            raise ToolError(
                f"the database {target.shown} is not empty: it has rows in {', '.join(filled)}",
                hint="copy into a new database",
            )
        for table in tables:
            _copy_table(reading, writing, table)
        counts = {table.name: _count(reading, table) for table in tables}
        copied = {table.name: _count(writing, table) for table in tables}
        if counts != copied:
            wrong = ", ".join(
                f"{name}: {counts[name]} and {copied[name]}" for name in counts if counts[name] != copied[name]
            )
            raise ToolError(f"the copy is not complete: {wrong} rows")
    return counts


def _copy_table(reading: Connection, writing: Connection, table: Table) -> None:
    rows = reading.execute(select(table).order_by(*table.primary_key)).mappings()
    while some := rows.fetchmany(_AT_ONCE):
        writing.execute(insert(table), [dict(row) for row in some])
    column = table.autoincrement_column
    if column is not None and writing.dialect.name == "postgresql":  # the next id follows the last one
        highest = writing.execute(select(func.max(column))).scalar()
        if highest:
            statement = text("SELECT setval(pg_get_serial_sequence(:table, :column), :highest)")
            writing.execute(statement, {"table": table.name, "column": column.name, "highest": highest})


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())
