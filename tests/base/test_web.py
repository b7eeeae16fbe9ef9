"""Fetched files, also from a hostile server: the file with the expected digest, or an error with the reason."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import pytest

from packager.base import web
from packager.base.errors import ToolError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Serve = Callable[..., str]

DATA = bytes(range(256)) * 64
DIGEST = hashlib.sha256(DATA).hexdigest()
LIMIT = 1 << 20


def whole(data: bytes = DATA, length: int | None = None) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data) if length is None else length, data)


def part(start: int) -> bytes:
    head = f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-/*\r\n"
    return f"{head}Content-Length: {len(DATA) - start}\r\n\r\n".encode() + DATA[start:]


def redirect(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@pytest.fixture
def requests() -> list[str]:
    """The requests that the server received."""
    return []


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, requests: list[str]) -> Iterator[Serve]:
    """Answers one request after the other with bytes, or with a function of the connection; returns the URL."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(contents: tuple[bytes | Callable[[socket.socket], None], ...]) -> None:
            for content in contents:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test has ended with fewer requests
                    return
                with connection:
                    requests.append(connection.recv(1 << 16).decode())
                    with suppress(OSError):
                        content(connection) if callable(content) else connection.sendall(content)

        def start(*contents: bytes | Callable[[socket.socket], None]) -> str:
            threads.append(threading.Thread(target=answer, args=[contents], daemon=True))
            threads[-1].start()
            return f"http://127.0.0.1:{server.getsockname()[1]}/file"

        yield start
        server.shutdown(socket.SHUT_RDWR)  # closing it would leave the threads in accept
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def download(url: str, file: Path, sha256: str | None = DIGEST) -> str:
    return web.download(url, file, sha256, limit=LIMIT, progress=lambda *_: nullcontext(lambda _steps: None))


def test_download_writes_the_whole_file(serve: Serve, tmp_path: Path) -> None:
    assert download(serve(whole()), tmp_path / "a") == DIGEST
    assert (tmp_path / "a").read_bytes() == DATA
    assert download(serve(whole()), tmp_path / "b", None) == DIGEST


def test_download_continues_after_a_broken_connection(serve: Serve, tmp_path: Path, requests: list[str]) -> None:
    url = serve(whole(DATA[:5000], len(DATA)), part(5000))
    with pytest.raises(ToolError, match="the response was cut off") as error:
        download(url, tmp_path / "a")
    assert error.value.hint == "try again: what has come is kept"
    assert download(url, tmp_path / "a") == DIGEST
    assert (tmp_path / "a").read_bytes() == DATA
    assert "Range" not in requests[0]
    assert "Range: bytes=5000-" in requests[1]


@pytest.mark.parametrize(
    "answers",
    [
        (whole(),),
        (b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", whole()),
    ],
    ids=["ignored", "refused"],
)
def test_download_starts_again_if_the_server_cannot_continue(
    serve: Serve, tmp_path: Path, answers: tuple[bytes, ...]
) -> None:
    (tmp_path / "a").write_bytes(DATA[:100])
    assert download(serve(*answers), tmp_path / "a") == DIGEST


def test_download_starts_again_if_the_beginning_is_wrong(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert download(serve(part(100), whole()), tmp_path / "a") == DIGEST
    assert (tmp_path / "a").read_bytes() == DATA


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(bytes(1 << 16))


def slow(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b"x")
        threading.Event().wait(0.02)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((endless,), "it has more than 1,048,576 bytes"),
        ((whole(b"", 1 << 40),), "it has more than 1,048,576 bytes"),
        ((slow,), "the server has not sent everything in time"),
        ((whole(DATA[:10], 100),), "the response was cut off"),
        ((b"hello\r\n",), "the response is not valid HTTP"),
        ((b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",), "404 Not Found"),
        ((redirect("file:///etc/passwd"),), "expected an http or https address, found 'file:///etc/passwd'"),
        ((redirect("ftp://127.0.0.1/x"),), "expected an http or https address, found 'ftp://127.0.0.1/x'"),
        (tuple(redirect("/file") for _ in range(20)), "redirects more than 5 times"),
    ],
)
def test_download_refuses_hostile_answers(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: tuple[bytes, ...], why: str
) -> None:
    monkeypatch.setattr(web, "SECONDS", 0.2)
    monkeypatch.setattr(web, "_SLOWEST", 1 << 40)
    with pytest.raises(ToolError, match=re.escape(why)) as error:
        download(serve(*answers), tmp_path / "a")
    assert str(error.value).startswith("http://127.0.0.1:")


def test_download_follows_redirects(serve: Serve, tmp_path: Path, requests: list[str]) -> None:
    assert download(serve(redirect("/other"), whole()), tmp_path / "a") == DIGEST
    assert requests[1].startswith("GET /other ")


def test_download_refuses_another_digest(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=f"expected sha256 {DIGEST}, found"):
        download(serve(whole(b"other")), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_requests_go_through_the_proxy_of_the_environment(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, requests: list[str], tmp_path: Path
) -> None:
    proxy = serve(whole(), b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").removesuffix("/file")
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", proxy.replace("://", "://ada:pa%20ss@"))
    download("http://h.example/file", tmp_path / "a")
    assert requests[0].startswith("GET http://h.example/file HTTP/1.1\r\n")
    assert "proxy-authorization: Basic YWRhOnBhIHNz" in requests[0]
    with pytest.raises(ToolError, match=r"could not be fetched: tunnel connection failed: 407"):
        download("https://h.example/file", tmp_path / "b")
    assert requests[1].startswith("CONNECT h.example:443 HTTP/1.")
    monkeypatch.setenv("no_proxy", "h.example")
    with pytest.raises(ToolError, match="could not be fetched"):
        download("http://h.example:1/file", tmp_path / "c")
    assert len(requests) == 2


def test_download_reports_an_answer_without_the_file(serve: Serve, tmp_path: Path) -> None:
    url = serve(b"HTTP/1.0 404 Not Found\r\n\r\n")
    with pytest.raises(ToolError) as refused:
        download(url, tmp_path / "a")
    assert (str(refused.value), refused.value.exit_code) == (f"{url} could not be fetched: 404 Not Found", 6)
