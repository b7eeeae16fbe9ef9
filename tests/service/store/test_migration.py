from __future__ import annotations

from packager.service.store import migration


def test_the_newest_schema_has_a_name() -> None:
    assert migration.newest() == "0001"
