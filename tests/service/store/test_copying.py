from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError
from packager.service.store import migration
from packager.service.store.models import StoredTemplate, metadata
from packager.service.store.store import Store
from tests.service.store.test_store import added
from tests.service.stored import change_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.postgres import Postgres


def rows(store: Store) -> dict[str, list[tuple[object, ...]]]:
    with store.database.reading() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(table.select().order_by(*table.primary_key))]
            for table in metadata.sorted_tables
        }


@pytest.mark.thorough
def test_copy_preserves_all_rows_to_postgresql_and_back(tmp_path: Path, postgres: Postgres) -> None:
    first, second, third = Store(tmp_path / "a.db"), Store(postgres.create()), Store(tmp_path / "b.db")
    for number in range(3):
        store_release = added(first, application=f"a{number}")
    change_job(first, store_release, status="failed", reason="OOMKilled")
    first.check_writable()
    counts = migration.copy(first.database, second.database)
    assert (counts["jobs"], counts["job_events"], counts["templates"], counts["meta"]) == (3, 4, 1, 1)
    assert migration.copy(second.database, third.database) == counts
    assert rows(first) == rows(second) == rows(third)
    added(second)
    assert [event.id for event in second.events(None)] == [1, 2, 3, 4, 5]
    for store in (first, second, third):
        store.close()


def test_copy_refuses_a_database_with_rows(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "a.db"), Store(tmp_path / "b.db")
    added(first)
    second.revisions.add(StoredTemplate(name="t", body="1", author="ada"))
    with pytest.raises(ToolError, match="is not empty: it has rows in templates"):
        migration.copy(first.database, second.database)
    assert second.counts() == {}
