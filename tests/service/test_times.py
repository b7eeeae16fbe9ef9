from __future__ import annotations

from datetime import UTC, datetime

from packager.service.store import models

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


def test_times_as_text_sort_by_time() -> None:
    assert models.as_text(NOW) == "2026-11-22T10:00:00.000000Z"
    assert models.as_text(datetime.fromisoformat("2026-11-22T11:00:00.5+01:00")) == "2026-11-22T10:00:00.500000Z"
