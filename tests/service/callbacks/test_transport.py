from __future__ import annotations

import asyncio
import ipaddress
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.callbacks.addresses import IP, Allowed, read_allowed
from packager.service.callbacks.transport import Reply, Transport
from tests.service.callbacks.receiver import OK, certificates, receiving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

NAME = "hooks.example.com"
BODY = b'{"status":"succeeded"}'
LOCAL = read_allowed(["127.0.0.0/8"])[0]


class Names:
    """A name server with prepared answers; it repeats the last one."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = [*map(list, answers)]
        self.asked = 0

    async def __call__(self, _host: str, _port: int) -> list[IP]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [ipaddress.ip_address(text) for text in answer]


def post(
    url: str,
    chunks: Callable[[], Iterable[bytes | None]] | None = None,
    *,
    headers: dict[str, str] | None = None,
    seconds: float = 30,
    tls: tuple[Any, Any] | None = None,
    allowed: Allowed = LOCAL,
    names: Names | None = None,
) -> tuple[Reply, Any]:
    """Send a callback to a receiver, whose port replaces PORT in `url`, and return the reply and the receiver."""

    async def run() -> tuple[Reply, Any]:
        server, client = tls or (None, None)
        async with receiving(server) as receiver:
            receiver.chunks = chunks or receiver.chunks
            resolve = names or Names(["127.0.0.1"])
            transport = Transport(allowed, resolve=resolve, tls=client, seconds=seconds)
            answer = await transport.post(url.replace("PORT", str(receiver.port)), headers or {}, BODY)
            await transport.close()
            return answer, receiver

    return asyncio.run(run())


def test_transport_connects_to_the_checked_address_with_the_host_name(tmp_path: Path) -> None:
    names = Names(["127.0.0.1"], ["127.0.0.99"])
    tls = certificates(tmp_path, NAME)
    answer, receiver = post(f"https://{NAME}:PORT/cb?a=%2F", tls=tls, headers={"x-api-key": "k"}, names=names)
    assert answer == Reply(200)
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /cb?a=%2F HTTP/1.1"
    assert sorted(lines[1:]) == [
        b"Content-Length: 22",
        f"Host: {NAME}:{receiver.port}".encode(),
        b"x-api-key: k",
    ]
    assert body == BODY
    assert receiver.names == [NAME]
    assert names.asked == 1


def test_transport_refuses_a_certificate_of_another_name(tmp_path: Path) -> None:
    answer, receiver = post(f"https://{NAME}:PORT/", tls=certificates(tmp_path, "other.example.com"))
    assert answer.code is None
    assert "certificate verify failed: Hostname mismatch" in str(answer.error)
    assert receiver.requests == []


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"], []],
)
def test_transport_sends_nothing_to_names_with_private_addresses(answers: list[str]) -> None:
    answer, receiver = post("https://rebind.example:PORT/", allowed=Allowed(), names=Names(answers))
    message = "rebind.example is not a public address, or has one that is not"
    assert (answer, receiver.requests) == (Reply(error=message), [])


def test_transport_checks_the_address_of_each_delivery() -> None:
    """Each delivery resolves the name once, and checks the address to which it connects."""
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    allowed = Allowed()

    async def run() -> list[str | None]:
        transport = Transport(allowed, resolve=names)
        connected: list[str] = []

        async def refuse(request: Any) -> Any:
            connected.append(request.url.host)
            raise OSError("unreachable")

        transport._http.handle_async_request = refuse  # type: ignore[method-assign]  # noqa: SLF001
        errors = [(await transport.post("https://rebind.example/", {}, BODY)).error for _ in range(2)]
        await transport.close()
        assert connected == ["93.184.216.34"]
        return errors

    assert asyncio.run(run()) == [
        "unreachable",
        "rebind.example is not a public address, or has one that is not",
    ]


def test_transport_ignores_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert post("http://127.0.0.1:PORT/")[0] == Reply(200)


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (301, "Location: http://127.0.0.1:PORT/second"),
        (200, 'Alt-Svc: h2="127.0.0.1:PORT"; ma=86400; persist=1'),
        (503, "Location: /second\r\nRetry-After: 0"),
        (401, 'WWW-Authenticate: Basic realm="x"'),
    ],
)
def test_transport_sends_one_request_whatever_the_response_proposes(code: int, header: str) -> None:
    async def run() -> tuple[int | None, list[bytes]]:
        async with receiving() as receiver:
            head = f"HTTP/1.1 {code} x\r\n{header}\r\nContent-Length: 0\r\n\r\n"
            receiver.chunks = lambda: [head.replace("PORT", str(receiver.port)).encode()]
            transport = Transport(LOCAL, seconds=5)
            reply = await transport.post(f"http://127.0.0.1:{receiver.port}/first", {}, BODY)
            await asyncio.sleep(0)
            await transport.close()
            return reply.code, receiver.requests

    replied, requests = asyncio.run(run())
    assert (replied, len(requests)) == (code, 1)
    assert requests[0].startswith(b"POST /first ")


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [("7", 7.0), ("9999999999999", None), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_transport_reads_retry_after_as_seconds_or_date(wish: str, seconds: float | None) -> None:
    busy = f"HTTP/1.1 503 Busy\r\nRetry-After: {wish}\r\nContent-Length: 0\r\n\r\n".encode()
    assert post("http://127.0.0.1:PORT/", lambda: [busy])[0] == Reply(503, retry_after=seconds)


def test_transport_stops_reading_an_endless_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = itertools.chain([head], itertools.repeat(b"400\r\n" + b"x" * 1024 + b"\r\n"))
    answer, receiver = post("http://127.0.0.1:PORT/", lambda: endless)
    assert answer == Reply(200)
    assert receiver.sent < 64 << 20


def test_transport_refuses_endless_headers() -> None:
    endless = itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"X-Header: " + b"x" * 1000 + b"\r\n"))
    answer, _ = post("http://127.0.0.1:PORT/", lambda: endless)
    assert answer.code is None


@pytest.mark.parametrize(
    "chunks",
    [[None], [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"begin", None]],
)
def test_transport_times_out_on_silent_endpoints(chunks: list[bytes | None]) -> None:
    answer, _ = post("http://127.0.0.1:PORT/", lambda: chunks, seconds=0.3)
    assert answer == Reply(error="no answer in 0.3 s")


@pytest.mark.parametrize("chunk", [b"", b"HTTP/1.1 abc\r\n\r\n"])
def test_transport_reports_malformed_responses_as_errors(chunk: bytes) -> None:
    answer, _ = post("http://127.0.0.1:PORT/", lambda: [chunk])
    assert (answer.code, bool(answer.error)) == (None, True)


def test_transport_reports_a_foreign_protocol_as_escaped_text() -> None:
    answer, _ = post("http://127.0.0.1:PORT/", lambda: [b"SSH-2.0-x \x00\r\n\r\n"])
    assert answer == Reply(error="illegal status line: 'SSH-2.0-x \\x00'")


def test_transport_reports_repeated_bytes_quotes_within_three_seconds() -> None:
    begun = time.process_time()
    answer, _ = post("http://127.0.0.1:PORT/", lambda: [b"bytearray(b'" * 5_000 + b"\r\n\r\n"])
    assert str(answer.error).startswith("illegal status line: ")
    assert time.process_time() - begun < 3


def test_transport_reports_a_refused_connection() -> None:
    async def run() -> Reply:
        async with receiving() as receiver:
            port = receiver.port
        transport = Transport(LOCAL)
        answer = await transport.post(f"http://127.0.0.1:{port}/", {}, BODY)
        await transport.close()
        return answer

    assert str(asyncio.run(run()).error).startswith("127.0.0.1 cannot be reached: ")


def test_transport_tries_the_next_address_of_a_name(tmp_path: Path) -> None:
    """No server listens on the first address."""
    names = Names(["127.0.0.77", "127.0.0.1"])
    answer, receiver = post(f"https://{NAME}:PORT/", tls=certificates(tmp_path, NAME), names=names)
    assert (answer, len(receiver.requests)) == (Reply(200), 1)


def test_transport_resolves_names_with_the_resolver_of_the_system() -> None:
    allowed = read_allowed(["localhost"])[0]

    async def run() -> Reply:
        async with receiving() as receiver:
            transport = Transport(allowed)
            answer = await transport.post(f"http://localhost:{receiver.port}/", {}, BODY)
            unknown = await transport.post("https://nothing.invalid/", {}, BODY)
            await transport.close()
            assert unknown == Reply(error="the name server does not know nothing.invalid")
            return answer

    assert asyncio.run(run()) == Reply(200)


def test_transport_does_not_keep_cookies() -> None:
    cookie = OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\n\r\n")

    async def run() -> list[bytes]:
        async with receiving() as receiver:
            receiver.chunks = lambda: [cookie]
            transport = Transport(LOCAL)
            for _ in range(2):
                await transport.post(f"http://127.0.0.1:{receiver.port}/", {}, BODY)
            await transport.close()
            return receiver.requests

    assert [b"cookie" in request.lower() for request in asyncio.run(run())] == [False, False]
