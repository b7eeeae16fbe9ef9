"""The script of packages that fetches files, against a server of the test."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES
from tests.web import Web, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = "quickstart/common/FRAMEWORK/k8s/mlops/base/sources.sh"
CONTENT = os.urandom(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Web]:
    with serving() as server:
        server.put("/file", CONTENT)
        server.put("/forbidden?signature=secret", b"", 403)
        server.put("/file?signature=secret", CONTENT)
        yield server


def sent(server: Web) -> list[tuple[str, str | None, str | None]]:
    """Return the path, the range and the secret of each request."""
    return [(one.path, one.headers.get("Range"), one.authorization) for one in server.requests]


def start(
    tmp_path: Path, url: str, *, digest: str = DIGEST, size: int = len(CONTENT), **others: str
) -> subprocess.Popen[str]:
    """Start the script, whose next program prints a word."""
    path = str(tmp_path / "output/data/file")
    script = str(TEMPLATES[""] / "package" / SCRIPT)
    argv = ["sh", script, url, path, digest, str(size), "TOKEN", "--", "echo", "next"]
    variables = {"PATH": os.environ["PATH"], "TOKEN": "secret", **others}
    return subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fetch(
    tmp_path: Path, url: str, *, digest: str = DIGEST, size: int = len(CONTENT), **others: str
) -> tuple[int, str, str]:
    """Run the script, and return its exit code and its output."""
    with start(tmp_path, url, digest=digest, size=size, **others) as running:
        stdout, stderr = running.communicate(timeout=120)
    return running.returncode, stdout, stderr


def file(tmp_path: Path) -> Path:
    return tmp_path / "output/data/file"


def test_file_is_fetched_once_for_each_volume(tmp_path: Path, server: Web) -> None:
    for _ in range(2):
        code, stdout, stderr = fetch(tmp_path, f"{server.url}/file")
        assert (code, stdout) == (0, "next\n"), stderr
        assert file(tmp_path).read_bytes() == CONTENT
    assert sent(server) == [("/file", None, "Bearer secret")]
    assert fetch(tmp_path, f"{server.url}/file", digest="0" * 64)[0] == 1
    assert file(tmp_path).read_bytes() == CONTENT


def test_several_pods_fetch_one_after_the_other(tmp_path: Path, server: Web) -> None:
    pods = [start(tmp_path, f"{server.url}/file") for _ in range(3)]
    assert [pod.communicate(timeout=120)[0] for pod in pods] == ["next\n"] * 3
    assert len(server.requests) == 1


def test_broken_download_is_continued(tmp_path: Path, server: Web) -> None:
    server.breaks = [1_000_000, 500_000]
    code, _, stderr = fetch(tmp_path, f"{server.url}/file")
    assert code == 0, stderr
    assert file(tmp_path).read_bytes() == CONTENT
    assert [given for _, given, _ in sent(server)] == [None, "bytes=1000000-", "bytes=1500000-"]


def test_busy_server_is_asked_again_after_its_time(tmp_path: Path, server: Web) -> None:
    server.put("/busy", b"", 429, **{"Retry-After": ""})
    with start(tmp_path, f"{server.url}/busy") as running:
        assert running.stderr
        assert "status 429; trying again" in running.stderr.readline()
        begun = time.monotonic()
        server.put("/busy", CONTENT)
        assert running.wait(120) == 0
    assert time.monotonic() - begun > 1 - 0.5


def test_pod_that_is_deleted_while_it_fetches_ends_at_once(tmp_path: Path, server: Web) -> None:
    """The script handles the signal, which the first process of a container ignores otherwise."""
    server.put("/busy", b"", 429, **{"Retry-After": "60"})
    with start(tmp_path, f"{server.url}/busy") as running:
        assert running.stderr
        assert "status 429; trying again" in running.stderr.readline()
        running.terminate()
        assert running.wait(30) == 143


def test_bytes_of_another_file_are_not_continued(tmp_path: Path, server: Web) -> None:
    file(tmp_path).parent.mkdir(parents=True)
    file(tmp_path).with_name(".mlpack-file.part").write_bytes(bytes(1_000_000))
    code, _, stderr = fetch(tmp_path, f"{server.url}/file")
    assert code == 0, stderr
    assert file(tmp_path).read_bytes() == CONTENT


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
    tmp_path: Path, server: Web, path: str, digest: str, size: int, why: str
) -> None:
    done = fetch(tmp_path, f"{server.url}{path}?signature=secret", digest=digest, size=size)
    assert done == (1, "", f"sources: {server.url}{path}: {why}\n")
    assert not file(tmp_path).exists()


def test_folder_that_is_not_writable_is_reported(tmp_path: Path, server: Web) -> None:
    (tmp_path / "output").touch()
    code, stdout, stderr = fetch(tmp_path, f"{server.url}/file")
    assert (code, stdout) == (1, "")
    assert ": cannot be written: " in stderr
    assert stderr.count("\n") == 1
    assert server.requests == []


def test_full_volume_is_reported(tmp_path: Path, server: Web) -> None:
    file(tmp_path).parent.mkdir(parents=True)
    file(tmp_path).with_name(".mlpack-file.part").symlink_to("/dev/full")
    reason = f"sources: {server.url}/file: {file(tmp_path)}: no space left\n"
    assert fetch(tmp_path, f"{server.url}/file") == (1, "", reason)


def test_secret_is_not_sent_to_another_host(tmp_path: Path, server: Web) -> None:
    server.put("/elsewhere", b"", 302, Location=server.url.replace("localhost", "127.0.0.1") + "/file")
    assert fetch(tmp_path, f"{server.url}/elsewhere")[0] == 0
    assert [token for _, _, token in sent(server)] == ["Bearer secret", None]
