from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import UnreachableError
from packager.service.jobs.kube import Cluster, LogOptions, RefusedError
from tests.service.apiserver import KUBECONFIG, ApiServer, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    with served(ApiServer) as api:
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=api.server_port), encoding="utf-8")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield api


def log(**options: Any) -> list[bytes]:
    async def read() -> list[bytes]:
        cluster = Cluster.connect()
        try:
            return [chunk async for chunk in cluster.log("p-1", "jobs", LogOptions("main", **options))]
        finally:
            await cluster.close()

    return asyncio.run(read())


def test_log_sends_its_options_and_returns_lines(api: ApiServer) -> None:
    api.log = "ä\n\u2028b\r\n\n\xa0without an end".encode()
    assert b"".join(log()).decode() == "ä\n\u2028b\r\n\n\xa0without an end\n"
    assert all(chunk.endswith(b"\n") for chunk in log())
    api.log_queries.clear()
    log()
    since = datetime(2026, 11, 22, 10, 0, 1, 500_000, UTC)
    log(tail=5, is_previous=True, since=since, has_times=True)
    log(is_following=True)
    common = {"container": "main"}
    assert api.log_queries == [
        common,
        {
            **common,
            "tailLines": "5",
            "previous": "true",
            "sinceTime": "2026-11-22T10:00:01Z",
            "timestamps": "true",
        },
        {**common, "follow": "true"},
    ]


def test_log_splits_long_lines(api: ApiServer) -> None:
    api.log = b"\xff" + b"x" * 1_000_000
    pieces = log()
    assert max(map(len, pieces)) < 256 << 10
    assert b"".join(pieces).rstrip(b"\n") == api.log


@pytest.mark.thorough
@pytest.mark.usefixtures("api")
def test_requests_are_answered_beside_any_number_of_watches() -> None:
    async def ask() -> object:
        cluster = Cluster.connect()
        watches = [cluster.watch("Pod", "jobs", "0") for _ in range(110)]
        waiting = []
        for watch in watches:
            waiting.append(asyncio.ensure_future(anext(watch, None)))
            await asyncio.sleep(0.005)
        try:
            async with asyncio.timeout(20):
                return await cluster.get("Job", "absent", "jobs")
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await cluster.close()

    assert asyncio.run(ask()) is None


def test_log_raises_the_error_of_the_api_server(api: ApiServer) -> None:
    api.refusal = 'container "main" in pod "p-1" is waiting to start: ContainerCreating'
    with pytest.raises(RefusedError, match="is waiting to start: ContainerCreating") as caught:
        log()
    assert caught.value.code == 400
    api.shutdown()
    api.server_close()
    with pytest.raises(UnreachableError, match="the cluster does not answer"):
        log()
