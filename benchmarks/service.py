"""How many jobs per second the task service creates, and how soon it shows a long list of them.

`python -m benchmarks service`. Jobs are rendered, checked and stored, on one core. The cluster answers at once, so what
is measured is the service alone.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import statistics
import time
from typing import TYPE_CHECKING, Any

from litestar.testing import TestClient
from sqlalchemy import insert

from benchmarks.measure import IMPORT_TYPER, Result, cpu_seconds, run
from packager.base.values import as_dict, convert, replace
from packager.service.access.tokens import EVERY, Caller
from packager.service.config import ServerConfig
from packager.service.jobs.make import Filled
from packager.service.page import app
from packager.service.registry.bodies import DefinitionBody
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.store.models import jobs
from packager.service.store.store import JobQuery, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from packager.base.values import Json

ROUNDS = 5
JOBS = 300
CLIENTS = 16
RATE = 100
STEADY = 500
LISTS = 20
LISTED = 100_000

DIGITS = {
    "name": "digits",
    "task_template_name": "non-distributed-task",
    "user_values_description": "process:\n  train:\n    steps: (Required:integer) Steps\n",
    "user_values_example": "taskDef: digits\nprocess:\n  train:\n    steps: 5\n",
    "system_values": "image:\n  repository: registry.example.com/digits\n  tag: '1'\n",
}
"""A definition with one value."""

_CALLER = Caller("bench", "token:bench", {EVERY: "admin"})


_FILTERS = (
    JobQuery(),
    JobQuery(creator="c7"),
    JobQuery(project="p1"),
    JobQuery(creator="c7", status="running"),
    JobQuery(q="in-none"),
)


class _NoCluster:
    """Accepts everything at once."""

    namespace = "bench"

    async def apply(self, item: Any, _namespace: str, *, dry_run: bool = False) -> Any:  # noqa: ARG002
        return item

    async def delete(self, *_: Any) -> None:
        return

    async def get(self, _kind: str, name: str, _namespace: str | None = None) -> Any:
        return {"metadata": {"name": name}}

    async def watch(self, *_: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None

    async def close(self) -> None:
        return

    async def list(self, kind: str, _namespace: str | None = None, _labels: Mapping[str, str] | None = None) -> Any:
        return [{"metadata": {"labels": {"kops.k8s.io/ml-instance": "true"}}}] if kind == "Node" else [], "0"


def measure(folder: Path) -> list[Result]:
    """Return the goals: 300 jobs a second, and a page of a long list in 50 ms."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # before the child process starts that fills in templates
    cluster = instant_cluster()
    store = Store(folder / "server.db")
    server = Server(ServerConfig(), store, cluster, Sealer(b"k" * 32), emit=_ignore)
    server.catalog.add_bundled()
    server.catalog.revisions.add(server.catalog.definition(convert(DIGITS, DefinitionBody), "bench")[0])
    created = asyncio.run(_create(server, folder))
    os.sched_setaffinity(0, cores)
    _fill(store)
    pages = [_page(store, filters) for _ in range(LISTS) for filters in _FILTERS]
    server.close()
    return [
        *created,
        Result("a page of 100,000 jobs, p95", (statistics.quantiles(pages, n=20)[18],), "ms", 50),
        *_first_page(folder),
    ]


def _first_page(folder: Path) -> list[Result]:
    """Return how long the server takes for the first page for people, and how large it is, with 100,000 jobs."""
    with sqlite3.connect(folder / "server.db") as connection:
        connection.execute("UPDATE jobs SET status = 'succeeded', started = created, ended = created")
    connection.close()
    cluster = instant_cluster()
    caller = Caller("bench", "token:bench", {EVERY: "admin"}, is_trusted=True)
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
        Result("the first page of 100,000 jobs, after the first", tuple(times[1:]), "ms", 100),
        Result("its size", (len(answer.content) / 1000,), "kB", 60),
    ]


def _fill(store: Store) -> None:
    """Add copies of the newest job until there are 100,000, of many creators and projects."""
    job = store.jobs(JobQuery(limit=1))[0]
    with store.database.writing() as connection:
        for start in range(0, LISTED, 5_000):
            copies = [
                as_dict(
                    replace(job, release=f"copy-{number:06x}", creator=f"c{number % 100}", project=f"p{number % 5}")
                )
                for number in range(start, start + 5_000)
            ]
            connection.execute(insert(jobs), copies)


def _page(store: Store, filters: JobQuery) -> float:
    """Return how many milliseconds a page takes."""
    start = time.perf_counter()
    store.jobs(filters)
    return (time.perf_counter() - start) * 1000


async def _create(server: Server, folder: Path) -> list[Result]:
    project = server.projects["default"]
    numbers = itertools.count(1)

    async def create() -> None:
        filled: dict[str, Json] = {"taskDef": "digits", "process": {"train": {"steps": next(numbers)}}}
        await server.tasks.create(Filled(filled, _CALLER, project))

    async def create_some(count: int) -> None:
        for _ in range(count):
            await create()

    await create_some(20)  # these start the child process and compile the template
    wall, cpu, shares = [], [], []
    run(IMPORT_TYPER, folder)  # fills its cache
    for _ in range(ROUNDS):
        begun, taken = time.perf_counter(), cpu_seconds(os.getpid())
        await asyncio.gather(*(create_some(JOBS // CLIENTS) for _ in range(CLIENTS)))
        made = JOBS // CLIENTS * CLIENTS
        wall.append(1000 * (time.perf_counter() - begun) / made)
        cpu.append(1000 * (cpu_seconds(os.getpid()) - taken) / made)
        shares.append(100 * cpu[-1] / (1000 * run(IMPORT_TYPER, folder).cpu))
    return [
        Result(f"a job created by {CLIENTS} clients (300 a second)", tuple(wall), "ms", 1000 / 300),
        Result("the same, CPU time", tuple(cpu), "ms"),
        Result("the same, of an import of typer", tuple(shares), "%"),
        Result(f"a job at {RATE} a second, p99", (await _steady(create),), "ms", 50),
    ]


async def _steady(create: Callable[[], Awaitable[None]]) -> float:
    """Return the 99th percentile of milliseconds from when a job is due until it is stored; jobs do not wait."""
    loop = asyncio.get_running_loop()
    first = loop.time() + 0.1

    async def at(due: float) -> float:
        await asyncio.sleep(due - loop.time())
        await create()
        return 1000 * (loop.time() - due)

    return statistics.quantiles(await asyncio.gather(*(at(first + n / RATE) for n in range(STEADY))), n=100)[98]


def _ignore(_line: str) -> None:
    return


def instant_cluster() -> Any:
    """Return a cluster that accepts everything at once, and in which nothing happens."""
    return _NoCluster()
