from __future__ import annotations

import asyncio

from packager.service.jobs.follower import JobQueue


def test_jobs_with_news_come_first_and_each_once() -> None:
    async def run() -> list[tuple[str, float | None]]:
        queue = JobQueue()
        for release, since in (("a", None), ("b", 2.0), ("c", 3.0), ("b", 9.0), ("a", None)):
            queue.add(release, since)
        assert len(queue) == 3
        taken = [await queue.take() for _ in range(3)]
        asyncio.get_running_loop().call_later(0.01, queue.add, "d", 4.0)
        return [*taken, await queue.take()]

    assert asyncio.run(run()) == [("b", 2.0), ("c", 3.0), ("a", None), ("d", 4.0)]
