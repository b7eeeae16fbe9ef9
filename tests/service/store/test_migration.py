from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import inspect

from packager.service.store import migration
from packager.service.store.databases import Sqlite
from packager.service.store.models import metadata
from packager.service.store.store import Store
from tests.service.conftest import BOTH

if TYPE_CHECKING:
    from sqlalchemy import Connection


def described(connection: Connection) -> dict[str, tuple[object, ...]]:
    """Return each table with its columns, keys, indexes and, in SQLite, its options."""
    tables = inspect(connection)
    statements: dict[str, str] = {}
    if connection.dialect.name == "sqlite":
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        statements = dict(map(tuple, connection.exec_driver_sql(query)))
    return {
        name: (
            [
                (column["name"], str(column["type"]), column["nullable"], column["default"])
                for column in sorted(tables.get_columns(name), key=lambda column: column["name"])
            ],
            sorted(tables.get_pk_constraint(name)["constrained_columns"]),
            sorted(map(str, tables.get_foreign_keys(name))),
            sorted(map(str, tables.get_unique_constraints(name))),
            sorted(map(str, tables.get_indexes(name))),
            [word for word in ("AUTOINCREMENT", "STRICT") if word in statements.get(name, "")],
        )
        for name in tables.get_table_names()
        if name != "alembic_version"
    }


def test_schema_versions_are_consecutive() -> None:
    assert migration.versions() == [f"{number:04}" for number in range(1, len(migration.versions()) + 1)]


@BOTH
def test_migration_creates_the_schema_that_the_tables_declare(database: str) -> None:
    store = Store(database)
    assert store.was_migrated
    with store.database.writing() as connection:
        migrated = described(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
        assert migrated == described(connection)
    assert migrated.keys() == metadata.tables.keys()
    if isinstance(store.database, Sqlite):
        assert all("STRICT" in str(statement) for *_, statement in migrated.values())
    store.close()
    again = Store(database)
    assert not again.was_migrated
    again.close()
