"""Fetched files: the file with the expected digest, or an error with the reason."""

from __future__ import annotations

import hashlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, VerificationError
from packager.base.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Serve = Callable[[bytes], str]

WHOLE = b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ntext"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Answers one request with the bytes that it is given, and hangs up; returns the URL."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(content: bytes) -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(content)

        def start(content: bytes) -> str:
            threading.Thread(target=answer, args=[content], daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}/file"

        yield start


def test_fetch_returns_file_with_the_digest(serve: Serve) -> None:
    assert fetch(serve(WHOLE), hashlib.sha256(b"text").hexdigest()) == b"text"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"hello\r\n", "the response is invalid: hello"),
        (WHOLE[:-1], "the response was cut off"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "Not Found"),
    ],
)
def test_fetch_reports_invalid_answer(serve: Serve, answer: bytes, why: str) -> None:
    url = serve(answer)
    with pytest.raises(ToolError) as refused:
        fetch(url, "0" * 64, hint="download the file another way")
    assert str(refused.value) == f"{url} could not be fetched: {why}"
    assert refused.value.hint == "download the file another way"
    assert refused.value.exit_code == 6


def test_fetch_refuses_file_with_another_digest(serve: Serve) -> None:
    url = serve(WHOLE)
    with pytest.raises(VerificationError) as refused:
        fetch(url, "0" * 64)
    digest = hashlib.sha256(b"text").hexdigest()
    assert str(refused.value) == f"{url} has changed: expected sha256 {'0' * 64}, found {digest}"
    assert refused.value.exit_code == 5
