from __future__ import annotations

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import insert, select

from packager.service.store import databases, migration
from packager.service.store.store import Store
from packager.service.store.tables import definitions, deliveries, jobs, metadata, templates
from tests.service.conftest import BOTH


def test_each_schema_follows_the_one_before() -> None:
    assert migration.versions() == [f"{number:04}" for number in range(1, len(migration.versions()) + 1)]


@BOTH
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


@BOTH
def test_callbacks_of_before_get_the_project_of_their_job(database: str) -> None:
    older = databases.opened(database)
    config = migration._config()  # noqa: SLF001 - as an earlier mlpack has left the database
    revision = {"name": "a", "revision": 1, "body": "{}", "is_current": True, "created": "x", "author": "ada"}
    named = dict.fromkeys(("application", "creator", "namespace", "kind", "filled", "manifests", "status"), "x")
    job = {**named, "goal": "run", "applied": True, "secrets": b"", "pods": "[]", "findings": "[]", "created": "x"}
    made_of = {"definition": "a", "definition_revision": 1, "template": "a", "template_revision": 1}
    callback = dict.fromkeys(("status", "url", "host", "body", "created"), "x")
    place = {"endpoint": 0, "sequence": 1, "state": "waiting", "attempts": 0, "secrets": b""}
    with older.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        connection.execute(insert(templates).values(revision))
        connection.execute(insert(definitions).values(**revision, template="a"))
        connection.execute(insert(jobs).values(**job, **made_of, release="kept", project="vision"))
        for release in ("kept", "gone"):
            connection.execute(insert(deliveries).values(**callback, **place, id=release, release=release))
    older.close()
    store = Store(database)
    with store.database.reading() as connection:
        rows = connection.execute(select(deliveries.c.release, deliveries.c.project)).all()
    store.close()
    assert dict(map(tuple, rows)) == {"kept": "vision", "gone": "default"}
