"""The script of packages that fetches files, against a server of the test."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = "quickstart/common/FRAMEWORK/k8s/mlops/base/sources.sh"
CONTENT = os.urandom(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """An HTTP server with one file.

    Attributes:
        requests: The path, the range and the token of each request.
        breaks: After how many bytes each answer breaks off, from the first one on.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.breaks: list[int] = []
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = handler.headers
        self.requests.append((handler.path, headers.get("Range"), headers.get("Authorization")))
        if handler.path.startswith("/forbidden"):
            handler.send_error(403)
            return
        if handler.path == "/elsewhere":
            handler.send_response(302)
            handler.send_header("Location", self.url.replace("127.0.0.1", "localhost") + "/file")
            handler.end_headers()
            return
        begin = int((headers.get("Range") or "bytes=0-")[6:-1])
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}")
        handler.send_header("Content-Length", str(len(CONTENT) - begin))
        handler.end_headers()
        end = begin + self.breaks.pop(0) if self.breaks else None
        handler.wfile.write(CONTENT[begin:end])


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *_arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_port}"
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield server
        http.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def start(tmp_path: Path, url: str, *, digest: str = DIGEST, size: int = len(CONTENT)) -> subprocess.Popen[str]:
    """Start the script, whose next program prints a word."""
    path = str(tmp_path / "output/data/file")
    script = str(TEMPLATES[""] / "package" / SCRIPT)
    argv = ["sh", script, url, path, digest, str(size), "TOKEN", "--", "echo", "next"]
    variables = {"PATH": os.environ["PATH"], "TOKEN": "secret"}
    return subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fetch(tmp_path: Path, url: str, *, digest: str = DIGEST, size: int = len(CONTENT)) -> tuple[int, str, str]:
    """Run the script, and return its exit code and its output."""
    with start(tmp_path, url, digest=digest, size=size) as running:
        stdout, stderr = running.communicate(timeout=120)
    return running.returncode, stdout, stderr


def file(tmp_path: Path) -> Path:
    return tmp_path / "output/data/file"


def test_file_is_fetched_once_for_each_volume(tmp_path: Path, server: Server) -> None:
    for _ in range(2):
        code, stdout, stderr = fetch(tmp_path, f"{server.url}/file")
        assert (code, stdout) == (0, "next\n"), stderr
        assert file(tmp_path).read_bytes() == CONTENT
    assert server.requests == [("/file", None, "Bearer secret")]
    assert fetch(tmp_path, f"{server.url}/file", digest="0" * 64)[0] == 1
    assert file(tmp_path).read_bytes() == CONTENT


def test_several_pods_fetch_one_after_the_other(tmp_path: Path, server: Server) -> None:
    pods = [start(tmp_path, f"{server.url}/file") for _ in range(3)]
    assert [pod.communicate(timeout=120)[0] for pod in pods] == ["next\n"] * 3
    assert len(server.requests) == 1


def test_broken_download_is_continued(tmp_path: Path, server: Server) -> None:
    server.breaks = [1_000_000, 500_000]
    code, _, stderr = fetch(tmp_path, f"{server.url}/file")
    assert code == 0, stderr
    assert file(tmp_path).read_bytes() == CONTENT
    assert [given for _, given, _ in server.requests] == [None, "bytes=1000000-", "bytes=1500000-"]


@pytest.mark.parametrize(
    ("path", "digest", "size", "why"),
    [
        ("/forbidden", DIGEST, len(CONTENT), "no right to read it (status 403)"),
        ("/file", "0" * 64, len(CONTENT), f"wrong digest: expected sha256 {'0' * 64}, found {DIGEST}"),
        ("/file", DIGEST, 1000, "it has more than the 1000 bytes that are expected"),
    ],
    ids=["forbidden", "digest", "size"],
)
def test_failure_is_reported_in_one_line(
    tmp_path: Path, server: Server, path: str, digest: str, size: int, why: str
) -> None:
    done = fetch(tmp_path, f"{server.url}{path}?signature=secret", digest=digest, size=size)
    assert done == (1, "", f"sources: {server.url}{path}: {why}\n")
    assert not file(tmp_path).exists()


def test_folder_that_is_not_writable_is_reported(tmp_path: Path, server: Server) -> None:
    (tmp_path / "output").touch()
    code, stdout, stderr = fetch(tmp_path, f"{server.url}/file")
    assert (code, stdout) == (1, "")
    assert ": cannot be written: " in stderr
    assert stderr.count("\n") == 1
    assert server.requests == []


def test_secret_is_not_sent_to_another_host(tmp_path: Path, server: Server) -> None:
    assert fetch(tmp_path, f"{server.url}/elsewhere")[0] == 0
    assert [token for _, _, token in server.requests] == ["Bearer secret", None]
