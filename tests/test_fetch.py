"""What is fetched: it is what was asked for, or the line says why it is not here."""

from __future__ import annotations

import hashlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from packager.errors import ToolError, VerificationError
from packager.fetch import fetch

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


def test_a_file_of_the_digest_is_fetched(serve: Serve) -> None:
    assert fetch(serve(WHOLE), hashlib.sha256(b"text").hexdigest()) == b"text"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "remote end closed connection without response"),
        (b"hello\r\n", "the answer is broken: hello"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntex",
            "the answer broke off",
        ),
        (WHOLE[:-1], "the answer broke off"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "Not Found"),
    ],
)
def test_an_answer_that_is_none(serve: Serve, answer: bytes, why: str) -> None:
    url = serve(answer)
    with pytest.raises(ToolError) as refused:
        fetch(url, "0" * 64, otherwise="bring the file here some other way")
    assert str(refused.value) == f"{url} could not be fetched: {why}"
    assert refused.value.hint == "bring the file here some other way"
    assert refused.value.exit_code == 6


def test_another_file_than_was_asked_for(serve: Serve) -> None:
    url = serve(WHOLE)
    with pytest.raises(VerificationError) as refused:
        fetch(url, "0" * 64)
    found = hashlib.sha256(b"text").hexdigest()
    assert str(refused.value) == f"{url} has changed: expected sha256 {'0' * 64}, found {found}"
    assert refused.value.exit_code == 5
