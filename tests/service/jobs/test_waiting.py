from __future__ import annotations

import asyncio

from packager.service.jobs.follower import JobQueue


def test_jobs_with_news_come_first_and_each_once() -> None:
    async def run() -> list[str]:
        queue = JobQueue()
        for release, is_news in (("a", False), ("b", True), ("c", True), ("b", True), ("a", False)):
            queue.add(release, is_news=is_news)
        taken = [await queue.take() for _ in range(3)]
        asyncio.get_running_loop().call_later(0.01, queue.add, "d")
        return [*taken, await queue.take()]

    assert asyncio.run(run()) == ["b", "c", "a", "d"]
