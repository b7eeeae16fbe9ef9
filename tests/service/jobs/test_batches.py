"""Batches: requests that arrive together are processed together."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from packager.base.values import replace
from packager.service.fair_queues import Owner
from packager.service.jobs.batches import Batches
from packager.service.store.quota import Quota
from packager.service.store.store import NewJob, QueueFullError
from tests.service.stored import JOB

ADA = Owner("research", "ada")


class _Store:
    """A store that blocks until `go_on` is set, and refuses jobs of the creator `full`."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.stored: list[list[str]] = []

    def add_jobs(self, new_jobs: list[NewJob]) -> list[Any]:
        self.stored.append([new.job.release for new in new_jobs])
        self.begun.set()
        assert self.go_on.wait(30)
        return [QueueFullError("full") if new.job.creator == "full" else new.job for new in new_jobs]


def _job(release: str, creator: str = "ada") -> NewJob:
    return NewJob(replace(JOB, release=release, creator=creator), creator, Quota())


def test_jobs_that_arrive_while_others_are_stored_form_one_batch() -> None:
    async def run() -> None:
        store: Any = _Store()
        intake: Batches[NewJob, Any] = Batches(store.add_jobs, 64)
        first = asyncio.create_task(intake.add(ADA, _job("a")))
        assert await asyncio.to_thread(store.begun.wait, 30)
        others = [asyncio.create_task(intake.add(ADA, _job(*names))) for names in (("b",), ("c", "full"), ("d",))]
        await asyncio.sleep(0)
        others[2].cancel()  # a cancelled job is not stored
        store.go_on.set()
        assert (await first).release == "a"
        assert (await others[0]).release == "b"
        with pytest.raises(QueueFullError):
            await others[1]
        assert store.stored == [["a"], ["b", "c"]]
        assert (await intake.add(ADA, _job("e"))).release == "e"

    asyncio.run(run())
