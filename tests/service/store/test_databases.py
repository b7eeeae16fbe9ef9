from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from packager.base.errors import ToolError, UsageError
from packager.base.values import replace
from packager.service.store import databases
from packager.service.store.databases import AwayError
from packager.service.store.models import StoredTemplate, StoredToken
from packager.service.store.store import Store
from tests.service.conftest import BOTH

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.postgres import Postgres as Server


def test_opened_accepts_paths_and_refuses_unsupported_addresses(tmp_path: Path) -> None:
    for where in (tmp_path / "a.db", f"{tmp_path}/a.db"):
        assert databases.opened(where).shown == f"{tmp_path}/a.db"
    for address in ("mysql://x/y", "postgresql://h:port/x"):
        with pytest.raises(UsageError, match=r"invalid .*database"):
            databases.opened(address)


def test_second_server_refuses_a_file_until_the_first_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "server.db"
    first = Store(path, is_served=True)
    (tmp_path / "folder").symlink_to(tmp_path)
    for where in (path, tmp_path / "folder/server.db"):
        with pytest.raises(ToolError, match=r"another server uses the database .*server\.db") as refused:
            Store(where, is_served=True)
        assert refused.value.exit_code == 6
    other = Store(path)  # commands for tokens and backups may use the database beside a server
    other.close()
    with pytest.raises(ToolError, match="another server"):
        Store(path, is_served=True)
    first.close()
    assert (tmp_path / "server.db.lock").exists()
    Store(path, is_served=True).close()


def test_lock_file_that_is_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "server.db.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match=r"server\.db\.lock cannot be opened"):
        Store(tmp_path / "server.db", is_served=True)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.thorough
def test_password_of_a_database_is_not_shown(postgres: Server, tmp_path: Path) -> None:
    store = Store(postgres.create())
    assert "no-secret" not in store.shown
    assert store.shown.startswith("postgresql://postgres:***@/test")
    with pytest.raises(ToolError, match="is not a file") as caught:
        store.database.backup(tmp_path / "copy")
    assert caught.value.hint == f"let PostgreSQL copy it: pg_dump --format=custom --file={tmp_path}/copy {store.shown}"
    assert store.database.check() == []
    store.close()


@pytest.mark.thorough
def test_unreachable_database_is_reported_and_reconnected(postgres: Server) -> None:
    with pytest.raises(AwayError, match="the database does not answer: "):
        Store("postgresql://nobody@127.0.0.1:1/none")
    store = Store(postgres.create())
    with pytest.raises(AwayError), store.database.writing() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert store.revisions.current(StoredTemplate) == []
    store.close()


@pytest.mark.thorough
def test_newer_schema_of_postgresql_is_refused(postgres: Server) -> None:
    address = postgres.create()
    store = Store(address)
    with store.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(ToolError, match="has the schema 9999, which a newer mlpack has written"):
        Store(address)


@BOTH
def test_pool_without_a_free_connection_is_reported_as_away(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(database)
    monkeypatch.setattr(store.database.engine.pool, "_timeout", 0.01)
    with ExitStack() as stack:
        for _ in range(databases.CONNECTIONS):
            stack.enter_context(store.database.reading())
        with pytest.raises(AwayError, match="the database does not answer: QueuePool limit"):
            store.job("none")
    store.job("none")
    store.close()


@BOTH
def test_errors_of_the_database_contain_no_values(database: str) -> None:
    store = Store(database)
    token = StoredToken(id="1", digest="no-secret", name="ada", role="user", created="1")
    store.tokens.add(token)
    with pytest.raises(IntegrityError) as caught:
        store.tokens.add(replace(token, digest="private"))
    assert "private" not in str(caught.value)
    store.close()


@pytest.mark.thorough
def test_second_server_refuses_a_postgresql_database_until_the_first_has_ended(postgres: Server) -> None:
    address = postgres.create()
    first = Store(address, is_served=True)
    with pytest.raises(ToolError, match="another server uses the database postgresql://"):
        Store(address, is_served=True)
    Store(address).close()
    first.close()
    Store(address, is_served=True).close()
