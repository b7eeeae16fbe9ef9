from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from sqlalchemy import inspect

from packager.service.store import migration
from packager.service.store.models import metadata
from packager.service.store.store import Store
from tests.released import RELEASES
from tests.service.conftest import BOTH

if TYPE_CHECKING:
    from pathlib import Path

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


def test_migrated_database_of_the_oldest_version_has_the_declared_schema(tmp_path: Path) -> None:
    path = tmp_path / "server.db"
    connection = sqlite3.connect(path)
    connection.executescript(min(RELEASES.glob("*/server.sql")).read_text(encoding="utf-8"))
    connection.close()
    store = Store(path)
    assert store.was_migrated
    with store.database.writing() as writing:
        migrated = described(writing)
        metadata.drop_all(writing)
        metadata.create_all(writing)
        assert migrated == described(writing)
    assert migrated.keys() == metadata.tables.keys()
    assert all("STRICT" in str(statement) for *_, statement in migrated.values())
    store.close()


@BOTH
def test_new_database_has_the_newest_version(database: str) -> None:
    store = Store(database)
    assert store.was_migrated
    with store.database.reading() as reading:
        assert described(reading).keys() == metadata.tables.keys()
    store.close()
    again = Store(database)
    assert not again.was_migrated
    again.close()
