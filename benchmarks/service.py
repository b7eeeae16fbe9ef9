"""How many jobs per second the task service creates: rendered, checked and stored, without a cluster.

`python -m benchmarks service`. The cluster answers at once, so what is measured is the service alone, on one core.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from typing import TYPE_CHECKING, Any

from litestar.testing import TestClient

from benchmarks.measure import Result
from packager.base.values import convert
from packager.service.bodies import DefinitionBody
from packager.service.config import ServerConfig
from packager.service.page import app
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.store.store import Filters, Store
from packager.service.tokens import EVERY, Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

JOBS = 300
LISTS = 50
MANY = 10_000

_DEFINITION = {
    "name": "digits",
    "task_template_name": "non-distributed-task",
    "user_values_description": "process:\n  train:\n    steps: (Required:integer) Steps\n",
    "user_values_example": "taskDef: digits\nprocess:\n  train:\n    steps: 5\n",
    "system_values": "image:\n  repository: registry.example.com/digits\n  tag: '1'\n",
}
_FILLED = {"taskDef": "digits", "process": {"train": {"steps": 3}}}
_CALLER = Caller("bench", {EVERY: "admin"})


class _NoCluster:
    """Accepts everything at once."""

    namespace = "bench"

    async def apply(self, item: Any, _namespace: str, *, dry_run: bool = False) -> Any:
        assert dry_run
        return item

    async def get(self, _kind: str, name: str, _namespace: str | None = None) -> Any:
        return {"metadata": {"name": name}}

    async def watch(self, *_: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None

    async def close(self) -> None:
        return

    async def list(self, _kind: str, _namespace: str | None = None, _labels: Mapping[str, str] | None = None) -> Any:
        return [{"metadata": {"labels": {"kops.k8s.io/ml-instance": "true"}}}], "0"


def measure(folder: Path) -> list[Result]:
    """Return the goals: 300 jobs a second, and a page of the list in 50 ms."""
    cluster: Any = _NoCluster()
    store = Store(folder / "server.db")
    server = Server(ServerConfig(), store, cluster, Sealer(b"k" * 32), emit=_ignore)
    server.catalog.add_bundled()
    server.catalog.add_definition(convert(_DEFINITION, DefinitionBody), "bench")
    seconds = asyncio.run(_create(server))
    pages = []
    for _ in range(LISTS):
        start = time.perf_counter()
        store.jobs(Filters(), 50)
        pages.append((time.perf_counter() - start) * 1000)
    server.close()
    total = sum(seconds)
    longest = statistics.quantiles([1000 * value for value in seconds], n=100)[98]
    return [
        Result("a job created (300 a second)", (1000 * total / JOBS,), "ms", 1000 / 300),
        Result("the same, the slowest of 100", (longest,), "ms", 50),
        Result("a page of the list of 300 jobs", tuple(pages), "ms", 50),
        *_first_page(folder),
    ]


def _first_page(folder: Path) -> list[Result]:
    """Return how long the server takes for the first page for people, and how large it is, with 10,000 jobs."""
    with sqlite3.connect(folder / "server.db") as connection:
        connection.execute("UPDATE jobs SET status = 'succeeded', started = created, ended = created")
        names = [row[1] for row in connection.execute("PRAGMA table_info(jobs)")]
        copied = ", ".join("j.release || '-' || n.value" if name == "release" else f"j.{name}" for name in names)
        numbers = "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ?)"
        copy = f"{numbers} INSERT INTO jobs SELECT {copied} FROM jobs AS j, n"  # noqa: S608 - the names of our columns
        connection.execute(copy, (MANY // JOBS,))
    connection.close()
    cluster: Any = _NoCluster()
    caller = Caller("bench", {EVERY: "admin"}, is_trusted=True)
    server = Server(
        ServerConfig(), Store(folder / "server.db"), cluster, Sealer(b"k" * 32), emit=_ignore, trusted=caller
    )
    times = []
    with TestClient(app.make(server), base_url="http://127.0.0.1") as client:
        for _ in range(LISTS):
            start = time.perf_counter()
            answer = client.get("/jobs")
            times.append((time.perf_counter() - start) * 1000)
            assert answer.status_code == 200, answer.text
    return [
        Result("the first page of 10,000 jobs, after the first", tuple(times[1:]), "ms", 100),
        Result("its size", (len(answer.content) / 1000,), "kB", 60),
    ]


async def _create(server: Server) -> list[float]:
    seconds = []
    project = server.tasks.project(None, _CALLER)
    for number in range(JOBS + 20):
        start = time.perf_counter()
        prepared = await server.tasks.prepare(_FILLED, _CALLER, project, dry_run=False)
        await server.tasks.create(prepared, _CALLER, lambda _: None)
        if number >= 20:  # the first ones start the child process and compile the template
            seconds.append(time.perf_counter() - start)
    return seconds


def _ignore(_line: str) -> None:
    return
