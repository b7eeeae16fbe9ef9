from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from packager.base.errors import ToolError
from packager.base.values import replace
from packager.service.access.tokens import Caller, caller, create
from packager.service.store import databases
from packager.service.store.models import StoredDefinition, StoredTemplate, read
from packager.service.store.quota import Quota
from packager.service.store.store import (
    JobQuery,
    SameNameError,
    Store,
)
from tests.service.conftest import BOTH
from tests.service.stored import JOB, add_job, change_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_database_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    Store(tmp_path / "new" / "s.db")
    assert (tmp_path / "new" / "s.db").stat().st_mode & 0o777 == 0o600


def test_store_refuses_other_files_links_and_folders(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("not a database, but long enough to look like one" * 10, encoding="utf-8")
    with pytest.raises(ToolError, match="cannot be used: file is not a database"):
        Store(tmp_path / "s.db")
    (tmp_path / "link.db").symlink_to("s.db")
    with pytest.raises(ToolError, match="cannot be opened"):
        Store(tmp_path / "link.db")
    with pytest.raises(ToolError, match="cannot be opened"):
        Store(tmp_path)


def test_backup_is_a_complete_private_database(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.revisions.add(template("{}"))
    store.database.backup(tmp_path / "copy.db")
    copy = Store(tmp_path / "copy.db")
    assert [row.name for row in copy.revisions.current(StoredTemplate)] == ["t"]
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ToolError, match="cannot be written: file exists"):
        store.database.backup(tmp_path / "copy.db")


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """A store in the database of the test."""
    store = Store(database)
    yield store
    store.close()


def template(body: str) -> StoredTemplate:
    return StoredTemplate(name="t", body=body, author="ada")


def added(store: Store, *, limits: Quota | None = None, **changes: Any) -> str:
    """Add a job with a new release, and return the release."""
    release = f"d-{secrets.token_hex(3)}"
    add_job(store, replace(JOB, release=release, **changes), limits=limits)
    return release


@BOTH
def test_job_status_changes_are_recorded_as_events(store: Store) -> None:
    release = added(store)
    assert not change_job(store, release, status="pending", message="no pods yet")
    assert change_job(store, release, status="running", message="all is well")
    assert change_job(store, release, status="failed", reason="OOMKilled")
    assert not change_job(store, release, status="running")  # an ended job does not change
    rows = store.events(release)
    assert [(row.sequence, row.status, row.reason) for row in rows] == [
        (1, "pending", "Created"),
        (2, "running", None),
        (3, "failed", "OOMKilled"),
    ]
    assert store.events(release, after=rows[0].id) == rows[1:]
    job = store.job(release)
    assert job
    assert (job.applied, job.secrets, job.message) == (False, b"\x00\xff", "all is well")
    store.mark_applied(release)
    assert store.counts() == {"failed": 1}
    assert store.unfinished() == []
    assert store.want(release, "delete", "ada")
    assert [row.release for row in store.unfinished()] == [release]
    assert store.remove_job(release, "delete")
    assert store.job(release) is None
    assert store.events(None) == []


@BOTH
def test_texts_of_the_cluster_are_stored_without_nul_and_surrogates(store: Store) -> None:
    release = added(store)
    texts = {"reason": "a\0b", "message": "a\0b\ud800", "hint": "\udfff c"}
    assert change_job(store, release, status="failed", findings='["\ud800"]', **texts)
    job = store.job(release)
    assert job
    assert (job.reason, job.message, job.hint, job.findings) == (
        "a\ufffdb",
        "a\ufffdb\ufffd",
        "\ufffd c",
        '["\ufffd"]',
    )
    event = store.events(release)[-1]
    assert (event.reason, event.message) == (job.reason, job.message)


@BOTH
def test_later_goal_of_a_job_is_neither_lowered_nor_lost(store: Store) -> None:
    release = added(store)

    def goal() -> str:
        job = store.job(release)
        assert job
        return job.goal

    store.want(release, "cancel", "ada")
    store.want(release, "delete-storage", "ada")
    assert not store.settle(release)  # the end of the cancel, which began before
    store.want(release, "delete", "ada")
    assert not store.remove_job(release, "delete")
    assert goal() == "delete-storage"
    assert store.remove_job(release, "delete-storage")
    assert not store.remove_job(release, "delete-storage")


@BOTH
def test_jobs_are_listed_by_every_filter_and_in_pages(store: Store) -> None:
    releases = [
        added(
            store,
            creator=f"c{number % 2}",
            owner=f"token:c{number % 2}",
            application=f"a{number}",
            project=f"p{number % 3}",
        )
        for number in range(6)
    ]

    def listed(after: tuple[str, str] | None = None, projects: tuple[str, ...] | None = None, **more: Any) -> list[int]:
        return [releases.index(row.release) for row in store.jobs(JobQuery(**more), projects, after)]

    assert listed() == [5, 4, 3, 2, 1, 0]
    assert listed(creator="c1") == [5, 3, 1]
    assert listed(application="a4") == [4]
    assert listed(projects=("p0", "p1")) == [4, 3, 1, 0]
    assert listed(projects=()) == listed(project="p0", projects=("p1",)) == []
    assert listed(status="running") == []
    assert listed(q=releases[2][2:]) == listed(q=releases[2].upper()) == [2]
    for text in ("%", "_", "\x00", "'; DROP TABLE jobs; --"):
        assert listed(q=text) == listed(creator=text) == []
    page = store.jobs(JobQuery(limit=4))
    assert listed(after=(page[-1].created, page[-1].release)) == [1, 0]
    third = page[2].created
    assert listed(since=third) == [5, 4, 3]
    assert listed(until=third) == [2, 1, 0]
    assert store.revisions.find(StoredTemplate, "\x00") is None
    assert len(store.events(None, projects=("p0",))) == 2


@BOTH
def test_concurrent_jobs_keep_the_limits_and_get_unique_event_ids(store: Store) -> None:
    added(store)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: added(store, project="p", limits=Quota(running=3)), range(12)))
    assert {row.status: row.jobs for row in store.usage() if row.project == "p"} == {"pending": 3, "queued": 9}
    ids = [row.id for row in store.events(None)]
    assert ids == list(range(1, 14))


def test_token_is_refused_once_it_has_expired(store: Store) -> None:
    for days, is_valid in ((1, True), (0, False)):
        _, text = create(store, f"ada-{days}", "user", days)
        assert (caller(store, text) is not None) is is_valid


def test_token_is_accepted_when_the_database_refuses_writes(store: Store) -> None:
    _, text = create(store, "ada", "user", None)

    def refuse_writes(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA query_only=ON")

    event.listen(store.database.engine, "connect", refuse_writes)
    store.database.engine.dispose()
    assert caller(store, text) == Caller("ada", "token:ada", {"*": "user"})
    assert [row.last_used for row in store.tokens.all()] == [None]


@BOTH
def test_job_of_a_missing_definition_or_with_a_taken_name_is_refused(store: Store) -> None:
    release = added(store)
    with pytest.raises(SameNameError, match=f"the job '{release}' exists"):
        add_job(store, replace(JOB, release=release))
    with pytest.raises(IntegrityError):
        add_job(store, replace(JOB, release="d-wrong", definition="none"))
    assert store.job("d-wrong") is None


@BOTH
def test_definitions_of_other_projects_are_neither_read_nor_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(store)
    rows: list[object] = []

    def counted(*query: Any) -> list[Any]:
        found = read(*query)
        rows.extend(found)
        return found

    monkeypatch.setattr(databases, "read", counted)
    for name, project in (("a.x", "a"), ("a.y", None), ("b.x", "b")):
        new = StoredDefinition(name=name, body="{" + "}" * 1000, author="ada", template="t", project=project)
        store.revisions.add(new)
    assert [row.name for row in store.revisions.current(StoredDefinition, ("a",))] == ["a.x", "a.y", "d"]
    assert len(rows) == 3  # the condition is one of the statement: thousands of others would slow each list
    assert sorted(store.revisions.names("b")) == ["a.y", "b.x", "d"]
    assert (store.size("a"), store.size("c")) == (1001, 0)
