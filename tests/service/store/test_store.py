from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError
from packager.service.store.store import ExistsError, MismatchError, Store

if TYPE_CHECKING:
    from pathlib import Path


def test_the_first_schema_is_what_was_released(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    assert store.was_migrated
    connection = sqlite3.connect(store.path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    tables = {name for name, _ in rows if not name.startswith("sqlite_")}
    assert tables == {
        "alembic_version", "definitions", "definitions_by_template", "deliveries", "deliveries_by_place",
        "deliveries_by_time", "job_events", "jobs", "jobs_by_application",
        "jobs_by_creation", "jobs_by_creator", "jobs_by_definition", "jobs_by_goal", "jobs_by_project",
        "jobs_by_status", "logs", "logs_by_time", "meta", "metrics", "requests", "templates", "tokens",
    }  # fmt: skip
    columns = [row[1] for row in connection.execute("PRAGMA table_info(jobs)")]
    assert columns == [
        "release", "definition", "definition_revision", "template", "template_revision", "application", "creator",
        "namespace", "kind", "filled", "secrets", "manifests", "goal", "applied", "status", "reason", "message", "hint",
        "pods", "findings", "created", "started", "ended",
        "project", "gpus",
    ]  # fmt: skip
    store.close()
    again = Store(tmp_path / "s.db")
    assert not again.was_migrated
    assert again.check() == []


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "s.db")
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "s.db").close()
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ToolError, match="has the schema 9999, which a newer mlpack has written"):
        Store(tmp_path / "s.db")


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("not a database, but long enough to look like one" * 10, encoding="utf-8")
    with pytest.raises(ToolError, match="cannot be used: file is not a database"):
        Store(tmp_path / "s.db")
    (tmp_path / "link.db").symlink_to("s.db")
    with pytest.raises(ToolError, match="cannot be opened"):
        Store(tmp_path / "link.db")
    with pytest.raises(ToolError, match="cannot be opened"):
        Store(tmp_path)


def test_a_backup_is_a_whole_database(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.add_template("t", "{}", "ada")
    store.backup(tmp_path / "copy.db")
    copy = Store(tmp_path / "copy.db")
    assert [row["name"] for row in copy.templates()] == ["t"]
    assert copy.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ToolError, match="cannot be written: file exists"):
        store.backup(tmp_path / "copy.db")


def test_revisions_are_counted_and_checked(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.add_template("t", "1", "ada")
    with pytest.raises(ExistsError):
        store.add_template("t", "2", "ada")
    with pytest.raises(MismatchError, match="expected revision 7, found 1"):
        store.change_template("t", "2", "ada", 7)
    assert store.change_template("none", "2", "ada", None) is None
    row = store.change_template("t", "2", "ada", 1)
    assert row
    assert row["revision"] == 2
    first = store.template("t", 1)
    assert first
    assert first["body"] == "1"
    assert store.setting("id", lambda: "a") == store.setting("id", lambda: "b") == "a"
