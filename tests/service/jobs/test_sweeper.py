from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from packager.base.values import replace
from packager.service.config import RetentionConfig
from packager.service.jobs.follower import Sweeper
from packager.service.store.models import StoredLog, as_text
from packager.service.store.store import Store
from tests.service.conftest import BOTH
from tests.service.stored import JOB, add_job

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


@BOTH
def test_sweeper_deletes_only_jobs_and_logs_older_than_their_retention(database: str) -> None:
    store = Store(database)
    for release, days in (("old-1", 91), ("new-1", 89), ("runs-1", None)):
        ended = None if days is None else as_text(NOW - timedelta(days=days))
        created = as_text(NOW - timedelta(days=200))
        status = "succeeded" if ended else "running"
        add_job(store, replace(JOB, release=release, status=status, ended=ended, created=created))
        log = StoredLog(
            release=release,
            pod="p",
            container="c",
            instance="current",
            place=0,
            size=1,
            content=b"x",
            time=ended or as_text(NOW),
        )
        store.logs.keep(log)
    deleted: list[str] = []
    log_lines: list[str] = []
    sweep = Sweeper(
        store,
        RetentionConfig(jobs="90d", logs="90d"),
        lambda release, _: deleted.append(release),
        log_lines.append,
        lambda: NOW,
    )
    asyncio.run(sweep.sweep())
    asyncio.run(sweep.sweep())
    assert deleted == ["old-1"]
    assert sorted(job.release for job in store.unfinished()) == ["old-1", "runs-1"]
    assert [event.actor for event in store.events("old-1")] == ["ada", "retention"]
    assert [len(store.logs.of_job(release)) for release in ("old-1", "new-1", "runs-1")] == [0, 1, 1]
    assert [line.split(" ")[0] for line in log_lines] == ["1", "old-1:"]
    asyncio.run(
        Sweeper(
            store, RetentionConfig(logs="1w"), lambda release, _: deleted.append(release), log_lines.append, lambda: NOW
        ).sweep()
    )
    assert (deleted, len(store.logs.of_job("new-1"))) == (["old-1"], 0)
    store.close()
