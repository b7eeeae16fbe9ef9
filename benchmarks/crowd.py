"""How long a project waits for the task service while another project asks for as much of it as it can.

`python -m benchmarks crowd`. The server listens on this machine, in a process of its own, with a cluster that answers
at once. Eight callers of one project do what costs most: large bodies, slow templates, trials of definitions, lists,
the OpenAPI document, bodies that never end, and callbacks that take long. A caller of another project creates jobs and
lists them meanwhile; the calm and the crowd take turns, and their 99th percentiles are compared.
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
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
import uvicorn

from benchmarks.measure import Result
from benchmarks.service import DIGITS, instant_cluster
from packager.service.access import tokens
from packager.service.config import CallbacksConfig, ProjectConfig, ServerConfig
from packager.service.page import app
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.serving import serving_options
from packager.service.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 4
SECONDS = 8.0
HOSTILE = 8
PAUSE = 0.02
"""Seconds between two requests of the caller whose waiting is measured."""

SLOW = """\
{% for i in range(700) %}{% for j in range(1000) %}{% endfor %}{% endfor %}
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

Client = httpx2.AsyncClient


def measure(folder: Path) -> list[Result]:
    """Return the goal: with eight hostile callers of a project, another's p99 is at most twice that of alone."""
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        names = ["calm", *(f"hostile-{number}" for number in range(HOSTILE))]
        known = Store(folder / "server.db")
        secrets = {name: _token(known, name) for name in names}
        admin = tokens.create(known, "admin", "admin", None)[1]
        known.close()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = context.Process(target=_serve, args=(str(folder), listener), daemon=True)
        server.start()
        stop, go = context.Event(), context.Event()
        attack = context.Process(target=_attack, args=(address, secrets, go, stop), daemon=True)
        try:
            asyncio.run(_prepare(address, admin))
            attack.start()
            alone, crowded = asyncio.run(_compare(address, secrets["calm"], go))
        finally:
            stop.set()
            attack.join(10)
            attack.kill()
            server.terminate()
            server.join(10)
    return list(_results(alone, crowded))


def _results(alone: dict[str, list[float]], crowded: dict[str, list[float]]) -> list[Result]:
    rows = []
    for what, calm in alone.items():
        before, after = _p99(calm), _p99(crowded[what])
        rows += [
            Result(f"{what}, alone: p99", (before,), "ms"),
            Result(f"{what}, beside {HOSTILE} hostile callers: p99", (after,), "ms"),
            Result("the same, of alone", (after / before,), limit=2),
            Result("the same, the median of alone", (_median(crowded[what]) / _median(calm),)),
        ]
    return rows


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
    runner = uvicorn.Server(uvicorn.Config(app.make(server), **serving_options(server.limits)))
    asyncio.run(runner.serve(sockets=[listener]))


async def _prepare(address: str, admin: str) -> None:
    headers = {"Authorization": f"Bearer {admin}"}
    async with Client(base_url=address, headers=headers, timeout=60) as client:
        slow = {"name": "slow-task", "template": SLOW}
        for path, body in (
            ("/v1/templates", slow),
            ("/v1/definitions", DIGITS),
            ("/v1/definitions", {**DIGITS, "name": "slow", "task_template_name": "slow-task"}),
        ):
            answer = await client.post(path, json=body)
            assert answer.status_code == 201, answer.text


async def _compare(address: str, token: str, go: Any) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the milliseconds of each kind of request, alone and beside the others."""
    times: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    async with Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        await _calm(client, {}, 2.0)
        for number in range(2 * ROUNDS):
            is_crowded = number % 2
            if is_crowded:
                go.set()
                await asyncio.sleep(1.0)
            await _calm(client, times[is_crowded], SECONDS)
            go.clear()
            await asyncio.sleep(4.0)  # the slow requests that have begun end
    return times


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


def _attack(address: str, secrets: dict[str, str], go: Any, stop: Any) -> None:
    """Send the worst requests for as long as `go` is set, until `stop` is."""
    os.nice(19)  # what it costs to send them is not measured
    asyncio.run(_attacked(address, secrets, go, stop))


async def _attacked(address: str, secrets: dict[str, str], go: Any, stop: Any) -> None:
    port = int(address.rpartition(":")[2])
    callbacks = await asyncio.start_server(_slow_endpoint, "127.0.0.1", 0)
    hook = f"http://127.0.0.1:{callbacks.sockets[0].getsockname()[1]}/"
    attacks = _attacks(hook)
    async with asyncio.TaskGroup() as tasks:
        for number, attack in zip(range(HOSTILE), itertools.cycle(attacks), strict=False):
            token = secrets[f"hostile-{number}"]
            for _ in range(6):
                tasks.create_task(_repeat(address, token, attack, go, stop))
        for number in range(40):
            tasks.create_task(_never_ends(port, secrets[f"hostile-{number % HOSTILE}"], go, stop))


def _attacks(hook: str) -> list[tuple[str, str, bytes | None]]:
    """Return the worst requests: method, path and body."""
    filled = {"taskDef": "slow", "process": {"train": {"steps": 1}}}
    endpoints = [{"type": "event", "endpoint": hook} for _ in range(10)]
    trial = {**DIGITS, "name": "hostile.trial", "task_template_name": "slow-task", "project": "hostile"}
    bodies: list[tuple[str, Any]] = [
        ("/v1/jobs", {"taskDef": "digits", **{f"k{number}": 1 for number in range(9_900)}}),
        ("/v1/jobs", {"taskDef": "digits", "process": {"train": {"steps": "x" * 500_000}}}),
        ("/v1/jobs", filled),
        ("/v1/jobs", {**filled, "taskDef": "digits", "endpoints": endpoints}),
        ("/v1/definitions?dry_run=true", trial),
        ("/v1/definitions?dry_run=true", {**trial, "user_values_description": _many()}),
    ]
    reads: list[tuple[str, str, bytes | None]] = [
        ("GET", path, None) for path in ("/v1/jobs?limit=200", "/openapi.json")
    ]
    return [*reads, *(("POST", path, json.dumps(body).encode()) for path, body in bodies)]


def _many() -> str:
    return "".join(f"k{number}: (Optional) {number}\n" for number in range(2_500))


async def _repeat(address: str, token: str, attack: tuple[str, str, bytes | None], go: Any, stop: Any) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    method, path, body = attack
    async with Client(base_url=address, headers=headers, timeout=60) as client:
        while not stop.is_set():
            if not go.is_set():
                await asyncio.sleep(0.05)
                continue
            with suppress(httpx2.HTTPError):
                await client.request(method, path, content=body)


async def _never_ends(port: int, token: str, go: Any, stop: Any) -> None:
    """Begin a body, and send a byte of it now and then."""
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    while not stop.is_set():
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}Content-Length: 500000\r\n\r\n{{".encode() + b" " * 60_000)
            while not stop.is_set():
                await asyncio.sleep(0.5)
                if go.is_set():
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
