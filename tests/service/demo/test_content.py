"""Test the jobs of the demonstration server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.service.access.tokens import EVERY, Caller
from packager.service.config import ServerConfig
from packager.service.demo import cluster
from packager.service.demo.cluster import SimulatedCluster
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.store.store import JobQuery, Store

if TYPE_CHECKING:
    from pathlib import Path

ADMIN = Caller("anonymous", "anonymous", {EVERY: "admin"}, is_trusted=True)


def test_demonstration_has_jobs_that_run_fail_succeed_and_wait(tmp_path: Path) -> None:
    log: list[str] = []

    async def statuses() -> set[str]:
        settings = ServerConfig(projects=cluster.PROJECTS)
        server = Server(
            settings,
            Store(tmp_path / "demo.db"),
            SimulatedCluster(tick=0.002),
            Sealer(bytes(32)),
            emit=log.append,
            trusted=ADMIN,
            is_demo=True,
        )
        async with server.running(), asyncio.timeout(60):
            await cluster.fill(server, ADMIN)
            seen: set[str] = set()
            while not {"running", "failed", "succeeded", "queued"} <= seen:
                seen |= {row.status for row in await asyncio.to_thread(server.store.jobs, JobQuery())}
                await asyncio.sleep(0.05)
            return seen

    assert {"running", "failed", "succeeded", "queued"} <= asyncio.run(statuses())
    assert [line for line in log if "Traceback" in line] == []
