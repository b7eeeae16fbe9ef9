from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.callbacks.courier import Reply, Transport
from packager.service.callbacks.endpoints import read_receivers
from tests.service.callbacks.receiver import OK, certificates, receiving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

BODY = b'{"status":"succeeded"}'


def post(
    chunks: Callable[[], Iterable[bytes | None]] | None = None,
    *,
    allowed: str = "127.0.0.1",
    tls: tuple[Any, Any] | None = None,
    times: int = 1,
) -> tuple[list[Reply], Any]:
    """Send a callback to a receiver, and return the replies and the receiver."""

    async def run() -> tuple[list[Reply], Any]:
        server, client = tls or (None, None)
        async with receiving(server) as receiver:
            receiver.chunks = chunks or receiver.chunks
            transport = Transport(read_receivers([allowed])[0], tls=client, seconds=1.0)
            url = f"http{'s' if tls else ''}://127.0.0.1:{receiver.port}/cb?a=%2F"
            replies = [await transport.post(url, {"x-api-key": "k"}, BODY) for _ in range(times)]
            await transport.close()
            return replies, receiver

    return asyncio.run(run())


def test_transport_sends_the_headers_and_body_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    replies, receiver = post()
    assert replies == [Reply(200)]
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /cb?a=%2F HTTP/1.1"
    assert b"x-api-key: k" in head
    assert body == BODY


def test_transport_sends_nothing_to_hosts_that_are_not_listed() -> None:
    replies, receiver = post(allowed="h.example")
    assert replies == [Reply(error="callbacks are not sent to '127.0.0.1'")]
    assert receiver.requests == []


def test_transport_refuses_a_certificate_of_another_name(tmp_path: Path) -> None:
    (reply,), receiver = post(tls=certificates(tmp_path, "other.example.com"))
    assert reply.code is None
    assert "certificate verify failed" in str(reply.error)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (301, "Location: http://127.0.0.1:1/second"),
        (503, "Location: /second\r\nRetry-After: 0"),
        (401, 'WWW-Authenticate: Basic realm="x"'),
        (200, "Set-Cookie: session=1; Path=/"),
    ],
)
def test_transport_sends_one_request_whatever_the_response_proposes(code: int, header: str) -> None:
    head = f"HTTP/1.1 {code} x\r\n{header}\r\nContent-Length: 0\r\n\r\n".encode()
    replies, receiver = post(lambda: [head], times=2)
    assert [reply.code for reply in replies] == [code] * 2
    assert len(receiver.requests) == 2
    assert not any(b"ookie" in request or b"uthorization" in request for request in receiver.requests)


@pytest.mark.parametrize(
    ("chunks", "reply"),
    [
        (lambda: [None], Reply(error="no answer in 1 s")),
        (lambda: itertools.chain([OK[:-2]], itertools.repeat(b"", 0), [None]), Reply(error="no answer in 1 s")),
        (lambda: [b"SSH-2.0-x\r\n\r\n"], None),
        (lambda: itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b"x" * 1024)), Reply(200)),
        (lambda: [b"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"], Reply(503, retry_after=7.0)),
    ],
    ids=["silent", "half", "other-protocol", "endless", "retry-after"],
)
def test_transport_waits_and_reads_no_longer_than_its_limits(
    chunks: Callable[[], Iterable[bytes | None]], reply: Reply | None
) -> None:
    begun = time.monotonic()
    (got,), _ = post(chunks)
    assert time.monotonic() - begun < 10
    assert got == reply or (reply is None and got.code is None and got.error)
