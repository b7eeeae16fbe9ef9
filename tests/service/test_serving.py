"""Requests that no client library sends: the server refuses or answers each of them, and never fails."""

from __future__ import annotations

import re
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from packager.service.api import limits
from packager.service.serving import allow_files
from tests.service.api.conftest import Service
from tests.service.live import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = 12
METHODS = ("OPTIONS", "HEAD", "TRACE", "CONNECT", "PATCH", "FOO", "get", "DELETE")
PATHS = ("/v1/jobs", "/healthz", "/v1/jobs/x/logs", "/", "*", "//x", "/v1/jobs/%ff", "/v1/templates/x/revisions/-1",
         "/v1/templates/x/revisions/99999999999999999999", "http://x/v1/jobs", "/v1/events?after=9223372036854775807",
         "/v1/jobs?until=0001-01-01T00:00:00%2B14:00", "/v1/jobs?since=99999999w")  # fmt: skip
TYPES = ("application/json; charset=utf-16", "application/json; charset=\xff", "multipart/form-data",
         "multipart/form-data; boundary=x", "application/x-www-form-urlencoded; charset=bogus", "application/msgpack",
         "\xff\xfe", ";;;", "text/plain; a*=utf-8''%ff", "application/json")  # fmt: skip
BODIES = ("{}", '--x\r\nContent-Disposition: form-data; name="a"; filename="../x"\r\n\r\nb\r\n--x--\r\n', "a=%ff&%z",
          "\x80\x81", "[1e999]", '"\\ud800"', "null", "1" * 6_000, "[[[[")  # fmt: skip
HEADERS = ("Accept", "Accept-Encoding", "Cookie", "If-Match", "If-None-Match", "Last-Event-ID", "Range", "Origin",
           "x-api-key", "X-Forwarded-For", "X-Forwarded-Proto", "Host", "Authorization", "Traceparent")  # fmt: skip
VALUES = ("\xff\xfe", "a" * 9_000, '"', "=;=;", "1" * 5_000, "-1", "\xc3\xa9", "%00", "*", "nan", "1e400")
FRAMES = ("Content-Encoding: gzip", "Content-Length: 2\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip",
          "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: 2\r\nContent-Length: 3",
          "Content-Length: \xb2", "Content-Length: 0x2", "Content-Length: 2\r\nIdempotency-Key: \xff\xfe",
          "Content-Length: 2\r\nIdempotency-Key:", "Expect: 100-continue\r\nContent-Length: 2")  # fmt: skip
UPGRADES = ("websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13", "h2c")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, str]]:
    monkeypatch.setattr(limits, "BODY_SECONDS", 2.0)
    monkeypatch.setattr(limits, "_ANONYMOUS_PER_SECOND", 10_000)
    service = Service(tmp_path / "server.db")
    with listening(service) as url:
        yield service, url
    assert [line for line in service.log if "Traceback" in line] == []


def requests(token: str) -> Iterator[str]:
    """Yield malformed and unusual requests, each as Latin-1 text."""
    head = f"Host: testserver.local\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    yield from (f"{method} {path} HTTP/1.1\r\n{head}\r\n" for method in METHODS for path in PATHS)
    for kind in TYPES:
        for body in BODIES:
            yield f"POST /v1/jobs HTTP/1.1\r\n{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    yield from (
        f"POST /v1/jobs HTTP/1.1\r\n{head}Content-Type: application/json\r\n{frame}\r\n\r\n{{}}" for frame in FRAMES
    )
    for name in HEADERS:
        others = re.sub(rf"{name}: [^\r]*\r\n", "", head)
        path = "/openapi.json" if name.startswith("If-") else "/v1/jobs"
        yield from (f"GET {path} HTTP/1.1\r\n{others}{name}: {value}\r\n\r\n" for value in VALUES)
    yield from (f"GET /v1/jobs HTTP/1.1\r\n{head}Connection: Upgrade\r\nUpgrade: {name}\r\n\r\n" for name in UPGRADES)
    yield f"GET /v1/jobs HTTP/1.0\r\nx-api-key: {token}\r\n\r\n"


def answered(request: str, url: str) -> str:
    """Return the first line of the response to a request."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60) as client:
        client.sendall(request.encode("latin-1"))
        return client.recv(1 << 16).partition(b"\r\n")[0].decode()


def test_server_answers_raw_requests_without_a_failure(address: tuple[Service, str]) -> None:
    service, url = address
    sent = list(requests(service.tokens["admin"]))
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(lambda request: answered(request, url), sent))
    failed = [
        (answer, request[:300])
        for answer, request in zip(answers, sent, strict=True)
        if not re.match(r"HTTP/1\.1 [1-4]", answer)
    ]
    assert failed == []


@pytest.mark.parametrize(("soft", "hard", "expected"), [(256, 4_096, 4_096), (100_000, 200_000, 100_000)])
def test_server_may_open_as_many_files_as_the_system_permits(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _limit: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _limit, changed: limits.append(changed))
    allow_files()
    assert limits[-1] == (expected, hard)
