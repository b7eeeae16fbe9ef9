from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ToolError
from packager.service.readiness import Readiness
from packager.service.store.store import Store
from tests.service.api.conftest import Service
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path


class Bench:
    """A Readiness with a clock that the test sets, and the number of its requests to the cluster."""

    def __init__(self, path: Path) -> None:
        self.time = 0.0
        self.log: list[str] = []
        self.store = Store(path)
        self.cluster = FakeCluster()
        self.asked = 0
        self.late: asyncio.Event | None = None
        cluster: Any = self
        self.readiness = Readiness(self.store, cluster, "tests", self.log.append, clock=lambda: self.time)

    async def get(self, kind: str, name: str, namespace: str) -> Any:
        self.asked += 1
        if self.late:
            await self.late.wait()
        return await self.cluster.get(kind, name, namespace)

    def ask(self, times: int = 1) -> list[bool]:
        async def together() -> list[bool]:
            return await asyncio.gather(*(self.readiness.is_ready() for _ in range(times)))

        return asyncio.run(together())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "server.db")


def test_readiness_asks_the_cluster_once_in_five_seconds(bench: Bench) -> None:
    assert bench.ask(100) == [True] * 100
    bench.time = 4.9
    assert bench.ask(100) == [True] * 100
    assert bench.asked == 1
    bench.time = 5.0
    assert bench.ask(100) == [True] * 100
    assert bench.asked == 2


def test_readiness_is_false_without_waiting_for_a_late_cluster(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("packager.service.readiness._SECONDS", 0.05)
    bench.late = asyncio.Event()

    async def ask_then_let_the_cluster_answer(late: asyncio.Event) -> list[bool]:
        answers = await asyncio.gather(*(bench.readiness.is_ready() for _ in range(3)))
        late.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        return answers

    assert asyncio.run(ask_then_let_the_cluster_answer(bench.late)) == [False] * 3
    assert bench.asked == 1


def test_readiness_is_false_when_the_disk_is_full(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert bench.ask() == [False]
    assert "is full: 4 KiB are left" in bench.log[0]


def test_readyz_hides_the_cause_from_anonymous_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(tmp_path / "server.db")

    def raise_it(*_: object) -> None:
        raise ToolError("/srv/db is full")

    monkeypatch.setattr(service.server.store, "check_writable", raise_it)
    with service.client:
        answer = service.get("/readyz", None)
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
        messages = [json.loads(line)["message"] for line in service.log]
        assert "not ready: /srv/db is full" in messages
