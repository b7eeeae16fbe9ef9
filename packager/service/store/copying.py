"""Copies all rows from one database to another one: from SQLite to PostgreSQL, or back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, text

from packager.base.errors import ToolError
from packager.service.store.models import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from packager.service.store.store import Store

_AT_ONCE = 500
"""The number of rows that are read and written at a time."""


def copy(source: Store, target: Store) -> dict[str, int]:
    """Copy all rows in one transaction, and return the number of rows in each table. Raises ToolError."""
    tables = metadata.sorted_tables  # referenced tables come first
    with source.database.writing() as reading, target.database.writing() as writing:
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
