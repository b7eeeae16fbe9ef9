"""Connections: their limits, and their end when a client sends or reads nothing."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
import pytest

from packager.service import connections
from packager.service.api import rate_limits
from packager.service.config import LimitsConfig
from tests.service.api.conftest import Service
from tests.service.live import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: testserver.local\r\n\r\n"


@contextmanager
def served(folder: Path, **limits: int) -> Iterator[str]:
    with listening(Service(folder / "server.db", limits=LimitsConfig(**limits))) as url:
        yield url


def connected(stack: ExitStack, url: str) -> socket.socket:
    parts = urlsplit(url)
    return stack.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60))


def received(client: socket.socket) -> bytes:
    """Return the bytes that a client receives until the server ends the connection."""
    content = b""
    try:
        while part := client.recv(1 << 16):
            content += part
    except ConnectionResetError:
        pass
    return content


def test_server_ends_connections_without_a_complete_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with served(tmp_path) as url, ExitStack() as stack:
        silent, slow, second = (connected(stack, url) for _ in range(3))
        slow.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        second.sendall(HEALTH + b"GET /healthz HTTP/1.1\r\n")
        assert received(silent) == b""
        assert received(slow).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert received(second).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("limits", [{"address_connections": 3}, {"connections": 3}])
def test_connection_over_a_limit_is_refused_until_another_ends(tmp_path: Path, limits: dict[str, int]) -> None:
    with served(tmp_path, **limits) as url, ExitStack() as stack:
        clients = [connected(stack, url) for _ in range(3)]
        for client in clients:
            client.sendall(HEALTH)
            assert client.recv(12) == b"HTTP/1.1 200"
        answer = received(connected(stack, url))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 5\r\n" in answer
        clients[0].close()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if httpx2.get(f"{url}/healthz", timeout=60).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
        raise AssertionError("no place is free again")


def test_token_guesses_are_delayed_and_other_requests_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "_BURST_SECONDS", 0.1)
    with served(tmp_path) as url, httpx2.Client(base_url=url, headers={"Host": "testserver.local"}) as client:
        begun = time.monotonic()
        for number in range(22):
            assert client.get("/v1/jobs", headers={"x-api-key": f"mlp_{number}"}).status_code == 401
        assert time.monotonic() - begun > 0.9  # twenty of them take a second
        assert client.get("/healthz").status_code == 200


def test_ipv6_addresses_are_counted_by_network() -> None:
    networks = [connections._network((text, 1)) for text in ("2001:db8::1", "2001:db8::ffff:1", "::ffff:192.0.2.1")]  # noqa: SLF001
    assert networks == ["2001:db8::/64", "2001:db8::/64", "192.0.2.1"]
    assert connections._network(None) == ""  # noqa: SLF001
