"""Runs a server until the process is asked to stop: the only importer of uvicorn."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from packager.base.errors import ToolError, UsageError, reason
from packager.service import config, projects, prometheus, sealing, sign_in
from packager.service.callbacks import signature
from packager.service.kube import Cluster
from packager.service.page import app
from packager.service.sealing import Sealer
from packager.service.server import Server, open_store
from packager.service.sign_in import Client
from packager.service.store import copying
from packager.service.store.databases import Sqlite
from packager.service.store.store import Store
from packager.service.tokens import EVERY, Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from packager.service.config import ServerConfig
    from packager.service.oidc import Issuer

_STOP_SECONDS = 10
_MOST_SCRAPES = 32


class _Beside(uvicorn.Server):
    """A listener beside the server, with which it starts and ends: signals are the server's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listener(settings: ServerConfig) -> socket.socket | None:
    """Listen where Prometheus reads figures without a token, if that is configured. Raises ToolError or UsageError."""
    if settings.prometheus_listen is None:
        return None
    host, port = config.address(settings.prometheus_listen)
    if port and port == config.address(settings.listen)[1]:
        raise UsageError(f"prometheus_listen: expected another port than that of listen, found {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        message = f"the server could not listen on {settings.prometheus_listen}: {reason(error)}"
        raise ToolError(message, hint="is the address in use?") from None


@asynccontextmanager
async def _figures_served(
    server: Server, listener: socket.socket | None, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """Answer Prometheus on a listener of its own for as long as the block runs."""
    if listener is None:
        yield
        return
    application = prometheus.app(server.figures, server.store.ping)
    settings = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=_MOST_SCRAPES,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    beside = _Beside(settings)
    task = asyncio.create_task(beside.serve(sockets=[listener]))
    host, port = listener.getsockname()[:2]
    tell(f"figures for Prometheus at http://{_shown(host)}:{port}{prometheus.PATH}, without a token")
    try:
        yield
    finally:
        beside.should_exit = True
        await task


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def signing_secret(settings: ServerConfig) -> bytes | None:
    """Return what callbacks are signed with, if anything. Raises ToolError or UsageError."""
    file = settings.callbacks.signing_secret_file
    return signature.read_secret(Path(file).expanduser()) if file else None


def issuer(settings: ServerConfig) -> Issuer | None:
    """Return the issuer of tokens, if one is configured. Raises ToolError."""
    if settings.oidc is None:
        return None
    try:
        from packager.service.oidc import Issuer  # noqa: PLC0415 - only sites with an issuer have its library
    except ModuleNotFoundError as error:
        message = f"oidc needs the Python package {error.name}, which is not installed"
        raise ToolError(message, hint="pip install 'mlpack-kubernetes[service,oidc]'") from None
    return Issuer(settings.oidc)


def client(settings: ServerConfig, issuer: Issuer | None) -> Client | None:
    """Return the page as its issuer knows it, if people sign in there. Raises ToolError or UsageError."""
    oidc = settings.oidc
    if issuer is None or oidc is None or oidc.client_id is None:
        return None
    file = oidc.client_secret_file
    secret = sign_in.read_secret(Path(file).expanduser()) if file else None
    return Client(issuer, oidc.client_id, secret, settings.public_url)


def copy(source: str, target: str) -> dict[str, int]:
    """Copy all rows of a database to another one; return how many there are in each table. Raises as `open_store`."""
    if source.startswith("sqlite:") or "://" not in source:
        path = Path(source.removeprefix("sqlite:")).expanduser()
        if not path.is_file():
            raise ToolError(f"the database {path} not found")
    return copying.copy(Store(source), Store(target))


def start(settings: ServerConfig, *, is_open: bool, emit: Callable[[str], None], tell: Callable[[str], None]) -> None:
    """Serve until the process is asked to stop.

    Args:
        settings: The configuration.
        is_open: Whether no token is asked for.
        emit: Writes a line of the log.
        tell: Writes a line for the person who has started it.

    Raises:
        UsageError: The address is not valid.
        ToolError: The database or the address cannot be used.
        ClusterError: No cluster is configured.
    """
    host, port = config.address(settings.listen)
    listener = _listener(settings)
    secret, trust = signing_secret(settings), issuer(settings)
    page = client(settings, trust)
    store = open_store(settings)
    variable = os.environ.get(sealing.VARIABLE)
    if variable:
        key = sealing.key_from(variable)
    elif not isinstance(store.database, Sqlite):
        raise UsageError(
            f"the database {store.shown} needs {sealing.VARIABLE}: all replicas have the same key",
            hint="head -c 32 /dev/urandom | base64",
        )
    else:
        key, created = sealing.key_beside(store.database.path)
        if created:
            tell(f"created {created}, the key to the secrets in the database: keep a copy")
    trusted = Caller("anonymous", {EVERY: "admin"}, is_trusted=True) if is_open else None

    async def serve() -> bool:
        cluster = Cluster.connect(settings.context)
        server = Server(
            settings,
            store,
            cluster,
            Sealer(key),
            emit=emit,
            trusted=trusted,
            signing_secret=secret,
            issuer=trust,
            client=page,
        )
        namespaces = projects.namespaces(server.projects)
        places = f"the namespace{'s' if len(namespaces) > 1 else ''} {', '.join(namespaces)}"
        tell(f"serving http://{_shown(host)}:{port}, jobs in {places}, database {store.shown}")
        if not is_open and page is None and not store.tokens():
            tell("no token exists yet: `mlpack serve token NAME --role admin` creates one")
        runner = uvicorn.Server(
            uvicorn.Config(
                app.make(server),
                host=host,
                port=port,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )
        async with _figures_served(server, listener, tell):
            await runner.serve()
        return runner.started

    try:
        if not asyncio.run(serve()):
            raise ToolError(f"the server could not listen on {settings.listen}", hint="is the address in use?")
    except SystemExit:  # uvicorn's, when it cannot listen
        raise ToolError(f"the server could not listen on {settings.listen}", hint="is the address in use?") from None
