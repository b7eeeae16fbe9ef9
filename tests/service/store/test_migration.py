from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from packager.service.store import migration
from packager.service.store.store import Store
from packager.service.store.tables import metadata


def test_each_schema_follows_the_one_before() -> None:
    assert migration.versions() == [f"{number:04}" for number in range(1, len(migration.versions()) + 1)]


def test_the_migrations_make_the_tables_that_the_statements_use(database: str) -> None:
    store = Store(database)
    assert store.was_migrated
    with store.database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        if not store.database.is_shared:
            strict = connection.exec_driver_sql("SELECT name FROM pragma_table_list WHERE strict = 1").scalars().all()
            assert set(strict) == set(metadata.tables)
    store.close()
    again = Store(database)
    assert not again.was_migrated
    again.close()
