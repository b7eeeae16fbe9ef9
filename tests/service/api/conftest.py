from __future__ import annotations

import atexit
import copy
import functools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from litestar.datastructures import State
from litestar.events import SimpleEventEmitter

from packager.service.access.tokens import EVERY, ROLES, Caller, create
from packager.service.api import app
from packager.service.api.limits import Door
from packager.service.callbacks.courier import Reply
from packager.service.config import CallbacksConfig, LimitsConfig, ServerConfig
from packager.service.registry import rendering
from packager.service.registry.rendering import Helpers
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.store.store import Store
from tests.service.contract import CheckedClient
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.service.access.issuer_tokens import Issuer
    from packager.service.access.sign_in import Client


class Endpoints:
    """A transport to endpoints in memory, with their status code and the requests that they received."""

    def __init__(self) -> None:
        self.code = 200
        self.got: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> Reply:
        self.got.append((url, headers, json.loads(body)))
        return Reply(self.code)

    async def close(self) -> None:
        return


_PATIENCE = 120.0
"""Seconds that a busy machine may take."""

_QUICK = LimitsConfig(caller_requests_per_second=10_000)
"""Limits for tests of other things, which send hundreds of requests without a pause."""

CALLBACKS = CallbacksConfig(allow=["hooks.example.com", "h.example", "proud-squid-71.localtunnel.me"])

COUNTDOWN = {
    "name": "countdown",
    "task_template_name": "countdown-task",
    "user_values_description": "process:\n  train:\n    number: (Required:integer) Where to start\n",
    "user_values_example": "taskDef: countdown\nprocess:\n  train:\n    number: 5\n",
    "system_values": "image:\n  repository: registry.example.com/busybox\n  tag: '1'\n",
}
FILLED = {"taskDef": "countdown", "process": {"train": {"number": 3}}}


class _Shared(Helpers):
    """Processes that a service does not end."""

    def close(self) -> None:
        return


SANDBOXES = _Shared(rendering._SANDBOX)  # noqa: SLF001
"""The processes of all services in the tests, so that they are started once."""
atexit.register(Helpers.close, SANDBOXES)


@functools.cache
def _empty_database() -> bytes:
    """Return the file of a database without rows: making its tables takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.db")
        Store(path).close()
        return path.read_bytes()


@functools.cache
def _routes(make: Callable[[Server], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        parts: Any = (FakeCluster(), Sealer(b"k" * 32))
        return make(Server(ServerConfig(), Store(Path(folder, "server.db")), *parts, emit=print))


def application(make: Callable[[Server], Any], server: Server) -> Any:
    """Return `make(server)`, with the routes of another application: making them takes longer than most tests."""
    made = copy.copy(_routes(make))
    made.asgi_router = copy.copy(made.asgi_router)
    made.asgi_router.app = made
    made.asgi_handler = made._create_asgi_handler()  # noqa: SLF001
    made.event_emitter = SimpleEventEmitter([])
    made.state = State({"server": server, "door": Door(server.limits)})
    made._lifespan_managers = [lambda _app: server.running()]  # noqa: SLF001
    return made


class Service:
    """A server with a cluster in memory, its client, and a token for each role."""

    def __init__(
        self,
        where: str | Path,
        *,
        trusted: bool = False,
        cluster: FakeCluster | None = None,
        roles: Mapping[str, str] | None = None,
        issuer: Issuer | None = None,
        client: Client | None = None,
        **more: Any,
    ) -> None:
        self.path = Path(where)
        self.cluster = cluster or FakeCluster()
        self.log: list[str] = []
        if not str(where).startswith("postgresql:") and not self.path.exists():
            self.path.write_bytes(_empty_database())
        store = Store(where)
        self.tokens = dict(roles or {role: create(store, role, role, None)[1] for role in ROLES})
        settings = ServerConfig(
            storage_classes={"aws-efs": "shared"},
            node_selectors={"kops.k8s.io/ml-instance=true": {}},
            **{"limits": _QUICK, "callbacks": CALLBACKS, **more},
        )
        caller = Caller("anonymous", "anonymous", {EVERY: "admin"}, is_trusted=True) if trusted else None
        self.endpoints = Endpoints()
        connected: Any = self.cluster
        transport: Any = self.endpoints
        self.server = Server(
            settings,
            store,
            connected,
            Sealer(b"k" * 32),
            emit=self.log.append,
            trusted=caller,
            transport=transport,
            issuer=issuer,
            client=client,
        )
        base = "http://127.0.0.1" if trusted else "http://testserver.local"
        self.server.readiness.seconds = 0.05
        self.server._renderer._sandboxes = SANDBOXES  # noqa: SLF001
        self.client = self.client_of(base)

    def client_of(self, base: str) -> Any:
        """Return a client of the server."""
        return CheckedClient(application(app.make, self.server), base_url=base)

    def call(self, method: str, path: str, role: str | None = "admin", **options: Any) -> Any:
        headers = dict(options.pop("headers", {}))
        if role:
            headers.setdefault("Authorization", f"Bearer {self.tokens[role]}")
        return self.client.request(method, path, headers=headers, **options)

    def get(self, path: str, role: str | None = "admin", **options: Any) -> Any:
        return self.call("GET", path, role, **options)

    def post(self, path: str, body: Any = None, role: str | None = "admin", **options: Any) -> Any:
        return self.call("POST", path, role, **({} if body is None else {"json": body}), **options)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if value := condition():
                return value
            time.sleep(0.02)
        raise AssertionError(f"not within {_PATIENCE:g} s: {what}\n" + "\n".join(self.log))

    def status(self, release: str, status: str) -> dict[str, Any]:
        """Wait until a job has a status, and return it."""
        path = f"/v1/jobs/{release}"
        job: dict[str, Any] = self.until(
            lambda: (found := self.get(path).json()).get("status") == status and found, f"{release} {status}"
        )
        return job

    def created(self, **changes: Any) -> str:
        """Create a job, wait until it is applied, and return its release."""
        answer = self.post("/v1/jobs", {**FILLED, **changes})
        assert answer.status_code == 201, answer.text
        release = str(answer.json()["release"])
        self.until(lambda: ("Job", release) in self.cluster.objects, "the Job")
        return release


@pytest.fixture(autouse=True)
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", os.devnull)
