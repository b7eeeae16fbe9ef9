"""Requests to a hostile server: their content and recipient, and the limits of the answer."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from packager.base import rest
from packager.base.errors import ClusterError, MlpackError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Serve = Callable[[bytes], str]

SECRET = "mlp_the-secret"  # noqa: S105 - of no server


@pytest.fixture
def requests() -> list[str]:
    """The requests that the server received."""
    return []


@pytest.fixture
def serve(requests: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Answers every request with the same bytes, and returns the address."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing may be sent there
    contents: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        requests.append(_request(connection))
                        connection.sendall(contents[0])

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()

        def start(content: bytes) -> str:
            contents.append(content)
            return f"http://127.0.0.1:{server.getsockname()[1]}"

        yield start
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _request(connection: socket.socket) -> str:
    """Return a request, whose body comes in a separate packet."""
    request = b""
    while True:
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        if end and len(body) >= int(length[1] if length else 0):
            return request.decode()
        request += connection.recv(1 << 16)


def whole(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_request_carries_token_and_json(serve: Serve, requests: list[str]) -> None:
    to = rest.server(serve(whole(b'{"a": 1}')), SECRET)
    answer = rest.ask(to, "POST", rest.path("v1", "a/b", q="x y", none=None), {"b": "\u00e9\n"})
    assert (answer.status, answer.body) == (200, {"a": 1})
    head, _, body = requests[0].partition("\r\n\r\n")
    assert head.startswith("POST /v1/a%2Fb?q=x+y HTTP/1.1\r\n")
    assert f"Authorization: Bearer {SECRET}" in head
    assert body == '{"b": "\\u00e9\\n"}'
    assert SECRET not in repr(to)


@pytest.mark.parametrize("status", ["302 Found", "308 Permanent"])
def test_request_follows_no_redirect(serve: Serve, requests: list[str], status: str) -> None:
    address = serve(f"HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:9/\x1b[2J\r\nContent-Length: 0\r\n\r\n".encode())
    with pytest.raises(ClusterError, match="redirects to 'http://127") as error:
        rest.ask(rest.server(address, SECRET), "GET", "/v1/jobs")
    assert "\x1b" not in str(error.value)
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (whole(b"[" * 100_000), "is not valid JSON"),
        (whole(b"9" * 5_000), "is not valid JSON"),
        (whole(b"\xff\xfe"), "is not valid JSON"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200, "is not valid HTTP"),
    ],
)
def test_invalid_answer_is_refused(serve: Serve, content: bytes, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        rest.ask(rest.server(serve(content), None), "GET", "/")


def test_answer_above_the_limit_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "MAX_BYTES", 1 << 20)
    with pytest.raises(ClusterError, match="has more than 1,024 KiB"):
        rest.ask(rest.server(serve(whole(b" " * (2 << 20))), None), "GET", "/")


def test_unreachable_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnreachableError, match="does not answer: connection refused"):
        rest.ask(rest.server(f"http://127.0.0.1:{port}", None), "GET", "/")


def test_body_of_another_type_is_not_read_as_json(serve: Serve) -> None:
    answer = rest.ask(rest.server(serve(whole(b"<html>", "text/html", "502 Bad Gateway")), None), "GET", "/")
    assert (answer.status, answer.kind, answer.body) == (502, "text/html", None)


def test_opened_yields_the_whole_text(serve: Serve) -> None:
    text = "\u00e9" * 40_000 + "\n" + "x\n" * 10 + "end"
    to = rest.server(serve(whole(text.encode(), "text/plain; charset=utf-8")), None)
    with rest.opened(to, "/log") as parts:
        assert not isinstance(parts, rest.Answer)
        assert b"".join(parts).decode() == text


def test_server_accepts_https_and_addresses_of_this_machine() -> None:
    for url in (
        "http://h",
        "http://10.0.0.1:80",
        "http://127.0.0.1.example.com",
        "http://0.0.0.0",
        "http://[::ffff:10.0.0.1]",
        "http://2130706433",
    ):
        with pytest.raises(UsageError, match="without encryption") as error:
            rest.server(url, SECRET)
        assert SECRET not in f"{error.value}{error.value.hint}"
        assert rest.server(url, SECRET, is_insecure=True).url == url
    for url in ("https://h", "http://127.0.0.1:8080/", "http://[::1]:80/x", "http://localhost"):
        assert rest.server(url, None).url == url.rstrip("/")
    for host, expected in (
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("h", False),
    ):
        assert rest.is_loopback(host) is expected


def test_faulty_addresses_and_tokens_are_refused() -> None:
    for url in [
        "",
        "h",
        "ftp://h",
        "https://",
        "https://h:99999",
        "https://[h",
        "https://h?x",
        "https://h#x",
        "https://h\r\nx",
        "https://h /",
        "https://\u00e9",
    ]:
        with pytest.raises(UsageError, match="invalid server"):
            rest.server(url, None)
    with pytest.raises(UsageError, match="invalid server") as error:
        rest.server("https://ada:password@h", None)
    assert "password" not in str(error.value)
    for token in ("", "a\r\nHost: x", "\u00e9", "x" * 10_000):
        with pytest.raises(MlpackError, match="the token is not valid"):
            rest.server("https://h", token)
