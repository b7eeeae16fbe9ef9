"""Open streams end when their caller may no longer read them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import httpx
import pytest

from packager.service.access import tokens
from packager.service.failures import Failure
from packager.service.store.databases import AwayError
from packager.service.use import events
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.live import listening

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from pathlib import Path


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, str]]:
    """A listening server and its address; streams check the permissions of their caller twice a second."""
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.5)
    service = Service(tmp_path / "server.db")
    with listening(service) as address:
        with httpx.Client(base_url=address, headers={"x-api-key": service.tokens["admin"]}, timeout=60) as admin:
            service.until(lambda: _answers(admin), "the server")
            assert admin.post("/v1/definitions", json=COUNTDOWN).status_code == 201
        yield service, address


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def running(service: Service, address: str) -> str:
    """Return the release of a job whose pod has written a line."""
    headers = {"x-api-key": service.tokens["admin"]}
    release = str(httpx.post(f"{address}/v1/jobs", json=FILLED, headers=headers, timeout=60).json()["release"])
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    service.cluster.logs[f"{release}-x2x9p"] = ["three\n"]
    service.cluster.pod(release, "Running")
    return release


def ended(url: str, headers: dict[str, str], when_open: Callable[[], object]) -> str:
    """Read a stream until it ends, call `when_open` after the first part, and return the text."""
    parts: list[str] = []
    with httpx.stream("GET", url, headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        for part in stream.iter_text():
            if not parts:
                threading.Thread(target=when_open).start()
            parts.append(part)
    return "".join(parts)


EVENTS = {"Accept": "text/event-stream"}


def test_stream_ends_when_its_token_is_removed(live: tuple[Service, str]) -> None:
    service, address = live
    release = running(service, address)
    store = service.server.store
    paths = {"/v1/events": EVENTS, f"/v1/jobs/{release}/events": EVENTS, f"/v1/jobs/{release}/logs?follow=true": {}}
    for path, headers in paths.items():
        token, text = tokens.create(store, "ada", "developer", None)
        with_token = {**headers, "x-api-key": text}
        remove = _remover(service, token.id)
        assert ended(f"{address}{path}", with_token, remove), path
        assert httpx.get(f"{address}{path}", headers=with_token, timeout=60).status_code == 401


def _remover(service: Service, identifier: str) -> Callable[[], object]:
    return lambda: service.server.store.tokens.remove(identifier)


async def _lines(count: int, pause: float) -> AsyncGenerator[str]:
    for index in range(count):
        await asyncio.sleep(pause)
        yield f"{index}"


def read(count: int, pause: float, outcome: Exception | None) -> list[str]:
    """Return the items of a guarded stream whose checks raise `outcome`, or pass if it is None."""

    async def check() -> None:
        if outcome:
            raise outcome

    async def collect() -> list[str]:
        return [line async for line in events.guarded(_lines(count, pause), check)]

    return asyncio.run(collect())


def test_stream_continues_during_outages_and_ends_on_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.01)
    for outcome in (None, AwayError("away"), Failure("issuer-unreachable", "away")):
        assert read(3, 0.05, outcome) == ["0", "1", "2"]
    for kind in ("unauthenticated", "forbidden", "not-found"):
        assert read(3, 60.0, Failure(kind, "no")) == []
