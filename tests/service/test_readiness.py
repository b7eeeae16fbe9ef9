from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ToolError, UnreachableError
from packager.service.readiness import Readiness
from packager.service.store.store import Store
from tests.service.api.conftest import Service
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path


class Bench:
    """A Readiness, its cluster, and its log."""

    def __init__(self, path: Path) -> None:
        self.log: list[str] = []
        self.cluster: Any = FakeCluster()
        self.readiness = Readiness(Store(path), self.cluster, "tests", self.log.append)

    def check(self) -> list[str]:
        async def once() -> None:
            check = asyncio.create_task(self.readiness.run())
            self.readiness.seconds = 3600.0
            before = self.readiness.problems
            while self.readiness.problems is before:  # noqa: ASYNC110 - the loop tells nobody
                await asyncio.sleep(0.01)
            check.cancel()

        asyncio.run(once())
        return self.readiness.problems


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "server.db")


def test_server_is_ready_when_the_database_and_the_cluster_answer(bench: Bench) -> None:
    assert bench.readiness.problems != []
    assert bench.check() == []
    bench.cluster.error = UnreachableError("the cluster does not answer")
    assert bench.check() == ["the cluster does not answer"] == [bench.readiness.away]
    bench.cluster.error = None
    assert (bench.check(), bench.readiness.away) == ([], None)
    assert bench.log == ["ready", "not ready: the cluster does not answer", "ready"]


def test_server_is_not_ready_with_a_late_cluster(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("packager.service.readiness._SECONDS", 0.05)
    monkeypatch.setattr(bench.cluster, "get", late)
    assert "the cluster has not answered in time" in bench.check()


def test_server_is_not_ready_when_the_disk_is_full(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert "is full: 4 KiB are left" in bench.check()[0]


def test_readyz_hides_the_cause_from_anonymous_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(tmp_path / "server.db")

    def raise_it(*_: object) -> None:
        raise ToolError("/srv/db is full")

    monkeypatch.setattr(service.server.store, "check_writable", raise_it)
    with service.client:
        service.until(lambda: service.log, "the cause")
        answer = service.get("/readyz", None)
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
        assert "not ready: /srv/db is full" in [json.loads(line)["message"] for line in service.log]
