from __future__ import annotations

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import insert, select

from packager.service.store import databases, migration
from packager.service.store.store import Store
from packager.service.store.tables import definitions, deliveries, events, jobs, metadata, requests, templates
from tests.service.conftest import BOTH

REVISION = {"name": "a", "revision": 1, "body": "{}", "is_current": True, "created": "x", "author": "ada"}
JOB = {
    **dict.fromkeys(("application", "namespace", "kind", "filled", "manifests", "status", "created"), "x"),
    "creator": "root",
    "goal": "run",
    "applied": True,
    "secrets": b"",
    "pods": "[]",
    "findings": "[]",
    "definition": "a",
    "definition_revision": 1,
    "template": "a",
    "template_revision": 1,
}


def test_schema_versions_are_consecutive() -> None:
    assert migration.versions() == [f"{number:04}" for number in range(1, len(migration.versions()) + 1)]


@BOTH
def test_migrations_create_the_tables_of_the_metadata(database: str) -> None:
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
def test_older_callbacks_get_the_project_of_their_job(database: str) -> None:
    older = databases.opened(database)
    config = migration._config()  # noqa: SLF001 - as an earlier mlpack has left the database
    callback = dict.fromkeys(("status", "url", "host", "body", "created"), "x")
    place = {"endpoint": 0, "sequence": 1, "state": "waiting", "attempts": 0, "secrets": b""}
    with older.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        connection.execute(insert(templates).values(REVISION))
        connection.execute(insert(definitions).values(**REVISION, template="a"))
        connection.execute(insert(jobs).values(**JOB, release="kept", project="vision"))
        for release in ("kept", "gone"):
            connection.execute(insert(deliveries).values(**callback, **place, id=release, release=release))
    older.close()
    store = Store(database)
    with store.database.reading() as connection:
        rows = connection.execute(select(deliveries.c.release, deliveries.c.project)).all()
    store.close()
    assert dict(map(tuple, rows)) == {"kept": "vision", "gone": "default"}


@BOTH
def test_older_jobs_belong_to_the_token_with_their_creators_name(database: str) -> None:
    older = databases.opened(database)
    config = migration._config()  # noqa: SLF001 - as an earlier mlpack has left the database
    event = {"sequence": 1, "status": "pending", "time": "x"}
    request = {"path": "POST /v1/jobs?", "digest": "d", "created": "x"}
    with older.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0009")
        connection.execute(insert(templates).values(REVISION))
        connection.execute(insert(definitions).values(**REVISION, template="a"))
        for release, actor in (("own", "root"), ("for-root", "dev"), ("without-events", None)):
            connection.execute(insert(jobs).values(**JOB, release=release))
            if actor:
                connection.execute(insert(events).values(**event, release=release, actor=actor))
        for caller in ("root", "eve@research,vision"):
            connection.execute(insert(requests).values(**request, caller=caller, key="k"))
    older.close()
    store = Store(database)
    with store.database.reading() as connection:
        owners = connection.execute(select(jobs.c.release, jobs.c.owner, jobs.c.requester)).all()
        callers = connection.execute(select(requests.c.caller)).scalars().all()
    store.close()
    assert sorted(map(tuple, owners)) == [
        ("for-root", "token:root", "token:dev"),
        ("own", "token:root", "token:root"),
        ("without-events", "token:root", "token:root"),
    ]
    assert set(callers) == {"* token:root", "research,vision token:eve"}
