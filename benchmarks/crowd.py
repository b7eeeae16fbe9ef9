"""How long a project waits for the task service while another project asks for as much of it as it can.

`python -m benchmarks crowd`. The server listens on this machine, in a process of its own, with a cluster that answers
at once. Eight callers of one project do what costs most: large bodies, slow templates, trials of definitions, jobs that
are run again, lists, the OpenAPI document, bodies that never end, and callbacks that take long. A caller of another
project creates jobs and lists them, alone and beside the crowd in turn, each time at a new server with the same
content, so that nothing of the crowd is left in the calm. Their 99th percentiles are compared.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import os
import socket
import statistics
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2

from benchmarks.measure import Result, cpu_seconds
from benchmarks.service import DIGITS, instant_cluster
from packager.service.access import tokens
from packager.service.config import CallbacksConfig, ProjectConfig, ServerConfig
from packager.service.page import app
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.serving import Main, uvicorn_config
from packager.service.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 4
SECONDS = 8.0
HOSTILE = 8
CONNECTIONS = 6
"""The requests of each hostile caller at a time."""

BEFORE = 3.0
"""Seconds of the crowd before the measurement: bursts that are allowed after a silence are over then."""

JOBS = 60
"""The jobs that the project has when the measurement begins, more than a page of the list."""

PAUSE = 0.02
"""Seconds between two requests of the caller whose waiting is measured."""

SLOW = """\
{% for i in range(12000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ global.release }}"}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: "{{ image.repository }}:{{ image.tag }}", args: ["{{ process.train.steps }}"]}]
"""
"""A template that is legal, and takes a few tenths of a second."""

TOLD = {
    **DIGITS,
    "name": "told",
    "user_values_description": DIGITS["user_values_description"]
    + "endpoints:\n- type: (Optional) event\n  endpoint: (Optional:uri) Where to report\n",
}
"""A definition whose jobs report to endpoints."""

Client = httpx2.AsyncClient
Request = tuple[str, str, bytes | None]
"""Method, path and body."""


@dataclass
class _Measured:
    """Measurements of the requests of one project, alone or beside the crowd.

    Attributes:
        times: The milliseconds of the requests of each kind.
        seconds: The seconds of the measurement.
        cpu: The CPU seconds of the server and its child processes in these seconds.
        hostile: The number of hostile requests in these seconds, by status.
    """

    times: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    cpu: float = 0.0
    hostile: Counter[int] = field(default_factory=Counter)


def measure(folder: Path) -> list[Result]:
    """Return the goal: with eight hostile callers of a project, another's p99 is at most twice that of alone."""
    alone, crowded = _Measured(), _Measured()
    for number in range(ROUNDS):
        for name, measured in (("alone", alone), ("crowd", crowded)):
            place = folder / f"{name}-{number}"
            place.mkdir()
            _round(place, measured, is_crowded=measured is crowded)
    return list(_results(alone, crowded))


def _round(folder: Path, measured: _Measured, *, is_crowded: bool) -> None:
    """Measure a new server, alone or beside the crowd."""
    context = multiprocessing.get_context("spawn")
    names = ["calm", *(f"hostile-{number}" for number in range(HOSTILE))]
    known = Store(folder / "server.db")
    secrets = {name: _token(known, name) for name in names}
    admin = tokens.create(known, "admin", "admin", None)[1]
    known.close()
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = context.Process(target=_serve, args=(str(folder), listener), daemon=True)
        server.start()
        try:
            asyncio.run(_prepare(address, admin, secrets["calm"]))
            with _crowd(address, secrets) if is_crowded else _nobody() as statuses:
                asyncio.run(_measure(address, secrets["calm"], measured, server.pid or 0, statuses))
        finally:
            server.terminate()
            server.join(10)


@contextmanager
def _nobody() -> Iterator[list[int]]:
    yield []


@contextmanager
def _crowd(address: str, secrets: dict[str, str]) -> Iterator[Any]:
    """Send hostile requests while the block runs. Yield how many were answered with each status."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    statuses: Any = context.Array("L", 600)
    attack = context.Process(target=_attack, args=(address, secrets, statuses, stop), daemon=True)
    attack.start()
    try:
        while not sum(statuses):
            time.sleep(0.1)
        time.sleep(BEFORE)
        yield statuses
    finally:
        stop.set()
        attack.join(1)
        attack.kill()


def _results(alone: _Measured, crowded: _Measured) -> Iterator[Result]:
    for what, calm in alone.times.items():
        before, after = _p99(calm), _p99(crowded.times[what])
        yield Result(f"{what}, alone: p99", (before,), "ms")
        yield Result(f"{what}, beside {HOSTILE} hostile callers: p99", (after,), "ms")
        yield Result("the same, of alone", (after / before,), limit=2)
        yield Result(f"{what}, alone: median", (_median(calm),), "ms")
        yield Result("the same beside them, of alone", (_median(crowded.times[what]) / _median(calm),))
    requests = crowded.hostile.total()
    own = sum(map(len, crowded.times.values())) * alone.cpu / sum(map(len, alone.times.values()))
    yield Result("CPU time of the server, alone", (100 * alone.cpu / alone.seconds,), "%")
    yield Result("the same beside them", (100 * crowded.cpu / crowded.seconds,), "%")
    yield Result("a hostile request: CPU time of the server", (1000 * (crowded.cpu - own) / requests,), "ms")
    for status, count in sorted(crowded.hostile.items()):
        yield Result(f"hostile requests with status {status}", (count / crowded.seconds,), "/s")


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


_median = statistics.median


def _token(store: Store, name: str) -> str:
    project = "calm" if name == "calm" else "hostile"
    return tokens.create(store, name, "developer", None, project)[1]


def _serve(folder: str, listener: socket.socket) -> None:
    """Serve until the process is ended."""
    settings = ServerConfig(
        projects={name: ProjectConfig(namespace=name) for name in ("calm", "hostile")},
        callbacks=CallbacksConfig(allow=["127.0.0.1"]),
    )
    server = Server(
        settings, Store(f"{folder}/server.db"), instant_cluster(), Sealer(b"k" * 32), emit=lambda _line: None
    )
    runner = Main(uvicorn_config(app.make(server), server.limits), lambda: None)
    asyncio.run(runner.serve(sockets=[listener]))


async def _prepare(address: str, admin: str, calm: str) -> None:
    """Register the definitions, and create the jobs that the list has at first."""
    async with Client(base_url=address, timeout=60) as client:
        slow = {"name": "slow-task", "template": SLOW}
        job = ("/v1/jobs", {"taskDef": "digits", "process": {"train": {"steps": 1}}}, calm)
        for path, body, token in (
            ("/v1/templates", slow, admin),
            ("/v1/definitions", DIGITS, admin),
            ("/v1/definitions", TOLD, admin),
            ("/v1/definitions", {**DIGITS, "name": "slow", "task_template_name": "slow-task"}, admin),
            *[job] * JOBS,
        ):
            answer = await client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 201, answer.text


async def _measure(address: str, token: str, measured: _Measured, server: int, statuses: Any) -> None:
    """Add the milliseconds of each kind of request, and what the server has done meanwhile."""
    async with Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        await _calm(client, {}, 1.0)
        begun, cpu, answered = time.monotonic(), cpu_seconds(server), list(statuses)
        await _calm(client, measured.times, SECONDS)
        measured.seconds += time.monotonic() - begun
        measured.cpu += cpu_seconds(server) - cpu
        pairs = zip(statuses, answered, strict=True)
        measured.hostile += Counter({status: now - before for status, (now, before) in enumerate(pairs)})


async def _calm(client: Client, times: dict[str, list[float]], seconds: float) -> None:
    """Create and list jobs, one request after the other."""
    end = time.monotonic() + seconds
    job = {"taskDef": "digits", "process": {"train": {"steps": 1}}}
    while time.monotonic() < end:
        for what, method, path, body in (("a job", "POST", "/v1/jobs", job), ("a list", "GET", "/v1/jobs", None)):
            begun = time.perf_counter()
            answer = await client.request(method, path, json=body)
            times.setdefault(what, []).append(1000 * (time.perf_counter() - begun))
            assert answer.status_code in (200, 201), answer.text
            await asyncio.sleep(PAUSE)


# the crowd


def _attack(address: str, secrets: dict[str, str], statuses: Any, stop: Any) -> None:
    """Send the worst requests until `stop` is set."""
    os.nice(19)  # what it costs to send them is not measured
    asyncio.run(_attacked(address, secrets, statuses, stop))


async def _attacked(address: str, secrets: dict[str, str], statuses: Any, stop: Any) -> None:
    port = int(address.rpartition(":")[2])
    callbacks = await asyncio.start_server(_slow_endpoint, "127.0.0.1", 0)
    hook = f"http://127.0.0.1:{callbacks.sockets[0].getsockname()[1]}/"
    hostile = [secrets[f"hostile-{number}"] for number in range(HOSTILE)]
    attacks = itertools.cycle([*_attacks(hook), await _again(address, hostile[0])])
    async with asyncio.TaskGroup() as tasks:
        for token in hostile * CONNECTIONS:
            tasks.create_task(_repeat(address, token, next(attacks), statuses, stop))
        for token in hostile * 5:
            tasks.create_task(_never_ends(port, token, stop))


async def _again(address: str, token: str) -> Request:
    """Return the request that runs a slow job again."""
    async with Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        answer = await client.post("/v1/jobs", json={"taskDef": "slow", "process": {"train": {"steps": 1}}})
        return "POST", f"/v1/jobs/{answer.json()['release']}/rerun", None


def _attacks(hook: str) -> list[Request]:
    """Return the worst requests."""
    filled = {"taskDef": "slow", "process": {"train": {"steps": 1}}}
    endpoints = [{"type": "event", "endpoint": hook} for _ in range(10)]
    trial = {**DIGITS, "name": "hostile.trial", "task_template_name": "slow-task", "project": "hostile"}
    bodies: list[tuple[str, Any]] = [
        ("/v1/jobs", {"taskDef": "digits", **{f"k{number}": 1 for number in range(9_900)}}),
        ("/v1/jobs", {"taskDef": "digits", "process": {"train": {"steps": "x" * 500_000}}}),
        ("/v1/jobs", filled),
        ("/v1/jobs", {**filled, "taskDef": "told", "endpoints": endpoints}),
        ("/v1/definitions?dry_run=true", trial),
        ("/v1/definitions?dry_run=true", {**trial, "user_values_description": _many()}),
    ]
    reads: list[Request] = [("GET", path, None) for path in ("/v1/jobs?limit=200", "/openapi.json")]
    return [*reads, *(("POST", path, json.dumps(body).encode()) for path, body in bodies)]


def _many() -> str:
    return "".join(f"k{number}: (Optional) {number}\n" for number in range(2_500))


async def _repeat(address: str, token: str, attack: Request, statuses: Any, stop: Any) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    method, path, body = attack
    async with Client(base_url=address, headers=headers, timeout=60) as client:
        while not stop.is_set():
            with suppress(httpx2.HTTPError):
                answer = await client.request(method, path, content=body)
                statuses[answer.status_code] += 1


async def _never_ends(port: int, token: str, stop: Any) -> None:
    """Begin a body, and send a byte of it now and then."""
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    while not stop.is_set():
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}Content-Length: 500000\r\n\r\n{{".encode() + b" " * 60_000)
            while not stop.is_set():
                await asyncio.sleep(0.5)
                writer.write(b" ")
                await writer.drain()
            writer.close()


async def _slow_endpoint(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(1.0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
    writer.close()
