"""Clients that are slow on purpose."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
import pytest

from packager.service.api import body_timeout
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.live import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, str]]:
    monkeypatch.setattr(body_timeout, "SECONDS", 0.5)
    service = Service(tmp_path / "server.db")
    with listening(service) as url:
        yield service, url


def connected(stack: ExitStack, url: str) -> socket.socket:
    parts = urlsplit(url)
    return stack.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60))


def test_incomplete_bodies_are_refused_after_the_time_limit(address: tuple[Service, str]) -> None:
    service, url = address
    head = (
        "POST /v1/templates HTTP/1.1\r\nHost: testserver.local\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {service.tokens['admin']}\r\nContent-Length: 100\r\n\r\n"
    )
    with ExitStack() as stack:
        clients = [connected(stack, url) for _ in range(30)]
        for number, client in enumerate(clients):
            client.sendall(f"{head}{'{' * (number % 3)}".encode())
        for client in clients:
            answer = b""
            while part := client.recv(1 << 16):  # until the server closes the connection
                answer += part
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b'"type":"urn:mlpack:problem:too-slow"' in answer


def test_stream_outlasts_the_time_limit_of_a_body(address: tuple[Service, str]) -> None:
    service, url = address
    headers = {"Authorization": f"Bearer {service.tokens['admin']}", "Host": "testserver.local"}
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
        assert client.post("/v1/definitions", json=COUNTDOWN).status_code == 201
        with client.stream("GET", "/v1/events", headers={"Accept": "text/event-stream"}) as answer:
            time.sleep(2 * body_timeout.SECONDS)
            assert client.post("/v1/jobs", json=FILLED).status_code == 201
            assert any(line.startswith("data:") and '"status":"pending"' in line for line in answer.iter_lines())


def test_caller_has_a_limited_number_of_open_streams(address: tuple[Service, str]) -> None:
    service, url = address
    most = service.server.limits.streams
    headers = {"Authorization": f"Bearer {service.tokens['admin']}", "Host": "testserver.local"}
    follow = {"Accept": "text/event-stream"}
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
        with ExitStack() as stack:
            for _ in range(most):
                assert stack.enter_context(client.stream("GET", "/v1/events", headers=follow)).status_code == 200
            refused = client.get("/v1/events", headers=follow)
            assert refused.status_code == 429
            assert refused.json()["detail"].startswith(f"{most} streams of the caller are open (limits.streams in")
            assert client.get("/v1/events").status_code == 200
        service.until(lambda: _is_followed(client, follow), "a place for a stream")


def _is_followed(client: httpx2.Client, follow: dict[str, str]) -> bool:
    with client.stream("GET", "/v1/events", headers=follow) as answer:
        return answer.status_code == 200
