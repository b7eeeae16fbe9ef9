from __future__ import annotations

from typing import TYPE_CHECKING

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from packager.service.store import migration
from packager.service.store.store import Store
from packager.service.store.tables import metadata

if TYPE_CHECKING:
    from pathlib import Path


def test_each_schema_follows_the_one_before() -> None:
    assert migration.versions() == [f"{number:04}" for number in range(1, len(migration.versions()) + 1)]


def test_the_migrations_make_the_tables_that_the_statements_use(tmp_path: Path) -> None:
    Store(tmp_path / "s.db").close()
    with create_engine(f"sqlite:///{tmp_path / 's.db'}").connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        strict = connection.exec_driver_sql("SELECT name FROM pragma_table_list WHERE strict = 1").scalars().all()
    assert set(strict) == set(metadata.tables)
