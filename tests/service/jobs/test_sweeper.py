from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from packager.service.config import RetentionConfig
from packager.service.jobs.sweeper import Sweeper
from packager.service.store.store import Store
from packager.service.times import as_text
from tests.service.conftest import BOTH

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


@BOTH
def test_sweeper_deletes_only_jobs_and_logs_older_than_their_retention(database: str) -> None:
    store = Store(database)
    store.add_template("t", "{}", "ada")
    store.add_definition("d", "t", "{}", "ada")
    for release, days in (("old-1", 91), ("new-1", 89), ("runs-1", None)):
        ended = None if days is None else as_text(NOW - timedelta(days=days))
        row = {
            "release": release, "definition": "d", "definition_revision": 1, "template": "t", "template_revision": 1,
            "application": "demo", "creator": "ada", "namespace": "n", "kind": "Job", "manifests": "[]",
            "filled": "{}", "secrets": b"", "status": "succeeded" if ended else "running", "ended": ended,
            "created": as_text(NOW - timedelta(days=200)),
        }  # fmt: skip
        store.add_job(row, "ada", lambda _row: None)
        log = {"release": release, "pod": "p", "container": "c", "instance": "current", "place": 0, "size": 1}
        store.logs.keep(release, [{**log, "content": b"x", "time": ended or as_text(NOW)}])
    deleted: list[str] = []
    log_lines: list[str] = []
    sweep = Sweeper(store, RetentionConfig(jobs="90d", logs="90d"), deleted.append, log_lines.append, lambda: NOW)
    asyncio.run(sweep.sweep())
    asyncio.run(sweep.sweep())
    assert deleted == ["old-1"]
    assert sorted(row["release"] for row in store.unfinished()) == ["old-1", "runs-1"]
    assert [row["actor"] for row in store.events("old-1")] == ["ada", "retention"]
    assert [len(store.logs.of_job(release)) for release in ("old-1", "new-1", "runs-1")] == [0, 1, 1]
    assert [line.split(" ")[0] for line in log_lines] == ["1", "old-1:"]
    asyncio.run(Sweeper(store, RetentionConfig(logs="1w"), deleted.append, log_lines.append, lambda: NOW).sweep())
    assert (deleted, len(store.logs.of_job("new-1"))) == (["old-1"], 0)
    store.close()
