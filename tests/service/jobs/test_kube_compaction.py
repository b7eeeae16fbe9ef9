"""Lists and watches whose versions etcd has compacted, with an HTTP server that answers as an API server does."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from packager.base.errors import UnreachableError
from packager.service.jobs import kube
from packager.service.jobs.kube import Cluster, ExpiredError
from packager.service.jobs.mirror import Mirror
from tests.service.apiserver import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

RELEASE = "digits-0a1b2c"
LABELS = {"mlpack.dev/job": RELEASE, "mlpack.dev/server": "default"}
GONE = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "The provided continue parameter is too old to display a consistent list result.",
    "reason": "Expired",
    "code": 410,
}
TOO_OLD = {**GONE, "message": "too old resource version: 1 (9)"}


def job(name: str, version: int, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version), "labels": LABELS}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": status}


def page(*items: dict[str, Any], version: int = 1, further: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version), "continue": further}
    return {"apiVersion": "batch/v1", "kind": "JobList", "metadata": metadata, "items": items}


class Server(ThreadingHTTPServer):
    """An API server that gives each of `answers` once: an object with its HTTP status, or the bytes of a watch.

    Attributes:
        answers: The answers.
        queries: The query of each request.
        missing: The number of bytes at the end of each answer that are never sent.
        is_over: Is set at the end of the test.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, dict[str, Any]] | bytes] = []
        self.queries: list[dict[str, str]] = []
        self.missing = 0
        self.is_over = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.queries.append({key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()})
        answer = self.server.answers.pop(0)
        code, body = (200, answer) if isinstance(answer, bytes) else (answer[0], json.dumps(answer[1]).encode())
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) + self.server.missing))
        self.end_headers()
        self.wfile.write(body)
        if self.server.missing:
            self.server.is_over.wait(10)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=server.server_port), encoding="utf-8")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield server
        server.is_over.set()
        server.shutdown()
        thread.join()


def listed() -> tuple[list[str], str]:
    async def run() -> tuple[list[str], str]:
        cluster = Cluster.connect()
        try:
            items, version = await cluster.list("Job", "jobs", {"a": "b"})
            return [item["metadata"]["name"] for item in items], version
        finally:
            await cluster.close()

    return asyncio.run(run())


def watched() -> list[tuple[str, str]]:
    """Return the type of each event of a watch, and the version of its object."""

    async def run() -> list[tuple[str, str]]:
        cluster = Cluster.connect()
        try:
            changes = cluster.watch("Job", "jobs", "1", {"a": "b"})
            return [(change, item["metadata"]["resourceVersion"]) async for change, item in changes]
        finally:
            await cluster.close()

    return asyncio.run(run())


def stream(*events: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(
        json.dumps({"type": change, "object": item}, ensure_ascii=False).encode() + b"\n" for change, item in events
    )


def test_list_begins_again_without_pages_when_its_next_page_has_expired(server: Server) -> None:
    first, whole = page(job("a", 1), further="x"), page(job("a", 2), job("b", 3), version=3)
    server.answers = [(200, first), (410, GONE), (200, whole)]
    assert listed() == (["a", "b"], "3")
    selected = {"labelSelector": "a=b"}
    assert server.queries == [
        {**selected, "limit": "100"},
        {**selected, "limit": "100", "continue": "x"},
        selected,
    ]


@pytest.mark.parametrize("answer", [(410, TOO_OLD), stream(("ERROR", TOO_OLD))])
def test_watch_of_a_compacted_version_has_expired(server: Server, answer: Any) -> None:
    """etcd's error comes as the status of the answer, or as an event after the beginning of the answer."""
    server.answers = [answer]
    with pytest.raises(ExpiredError, match="too old resource version"):
        watched()


def test_watch_returns_changes_and_bookmarks_until_its_end(server: Server) -> None:
    bookmark = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"resourceVersion": "9"}}
    server.answers = [stream(("ADDED", job("a", 2)), ("DELETED", job("a", 3)), ("BOOKMARK", bookmark))]
    assert watched() == [("ADDED", "2"), ("DELETED", "3"), ("BOOKMARK", "9")]
    [query] = server.queries
    assert query == {
        "allowWatchBookmarks": "true",
        "labelSelector": "a=b",
        "resourceVersion": "1",
        "timeoutSeconds": "300",
        "watch": "true",
    }


@pytest.mark.parametrize("line", [b"<html>", b'{"type": "ADDED"}'])
def test_watch_reports_an_invalid_answer(server: Server, line: bytes) -> None:
    server.answers = [line + b"\n"]
    with pytest.raises(UnreachableError, match="a watch event"):
        watched()


def test_watch_ends_when_its_connection_is_lost(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "_WATCH_TIMEOUT", httpx2.Timeout(0.1))
    server.answers = [stream(("ADDED", job("a", 2)))]
    server.missing = 1
    with pytest.raises(UnreachableError, match="ReadTimeout"):
        watched()


class _Cluster:
    """A cluster with Jobs, whose lists and watches are given one after the other; the last watch does not end."""

    def __init__(self, lists: list[list[Any]], watches: list[list[tuple[str, Any]] | Exception]) -> None:
        self.lists, self.watches = lists, watches
        self.versions: list[str] = []
        self.is_over = asyncio.Event()

    async def list(self, kind: str, *_: Any) -> tuple[list[Any], str]:
        return (self.lists.pop(0), f"list-{len(self.lists)}") if kind == "Job" else ([], "1")

    async def watch(self, kind: str, _namespace: str, version: str, *_: Any) -> AsyncIterator[tuple[str, Any]]:
        if kind == "Job":
            self.versions.append(version)
            if self.watches:
                answer = self.watches.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                for change in answer:
                    yield change
                return
            self.is_over.set()
        await asyncio.Event().wait()


def mirrored(
    monkeypatch: pytest.MonkeyPatch, lists: list[list[Any]], watches: list[list[tuple[str, Any]] | Exception]
) -> tuple[Mirror, list[str], list[str], list[float]]:
    """Return the mirror of a cluster, the releases that it reported, its versions, and its pauses."""
    reported: list[str] = []
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def run() -> tuple[Mirror, list[str]]:
        cluster: Any = _Cluster(lists, watches)
        mirror = Mirror(cluster, "default", "jobs", reported.append, lambda _line: None)
        monkeypatch.setattr(asyncio, "sleep", pause)
        task = asyncio.create_task(mirror.run())
        await asyncio.wait_for(cluster.is_over.wait(), 30)
        task.cancel()
        return mirror, cluster.versions

    mirror, versions = asyncio.run(run())
    return mirror, reported, versions, pauses


def test_mirror_lists_again_after_compaction_and_reports_ended_and_deleted_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = job(RELEASE, 7, succeeded=1)
    lists = [[job(RELEASE, 1), job("other", 2)], [ended]]
    mirror, reported, versions, _ = mirrored(monkeypatch, lists, [ExpiredError("too old", 410)])
    assert versions == ["list-1", "list-0"]
    assert mirror.workload(RELEASE, "Job", RELEASE) == ended
    assert mirror.workload(RELEASE, "Job", "other") is None
    assert set(reported) == {RELEASE}


def test_mirror_pauses_between_watches_that_end_at_once_and_continues_at_their_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bookmark = ("BOOKMARK", {"kind": "Job", "metadata": {"resourceVersion": "9"}})
    watches: list[Any] = [[("MODIFIED", job(RELEASE, 5, succeeded=1))], [bookmark], []]
    mirror, _, versions, pauses = mirrored(monkeypatch, [[job(RELEASE, 1)]], watches)
    assert versions == ["list-0", "5", "9", "9"]
    assert mirror.workload(RELEASE, "Job", RELEASE) == job(RELEASE, 5, succeeded=1)
    assert pauses == [0.5, 1.0, 2.0]
