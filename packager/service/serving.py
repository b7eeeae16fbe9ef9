"""Runs a server with uvicorn until the process gets a signal to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from packager.base import workfolder
from packager.base.errors import ToolError, UsageError, missing_extra, reason
from packager.service import config, sealing
from packager.service.access import permissions, sign_in
from packager.service.access.sign_in import Client
from packager.service.access.tokens import EVERY, Caller
from packager.service.callbacks.courier import SigningSecrets
from packager.service.config import ServerConfig
from packager.service.demo.cluster import PROJECTS, SimulatedCluster, fill
from packager.service.jobs import kube
from packager.service.page import app
from packager.service.registry.rendering import confinement_gaps
from packager.service.sealing import Sealer
from packager.service.server import Server, open_store
from packager.service.store.databases import Sqlite

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from packager.service.access.issuer_tokens import Issuer
    from packager.service.config import LimitsConfig
    from packager.service.store.store import Store

_STOP_SECONDS = 10
_IDLE_SECONDS = 10

_MOST_FILES = 65_536
"""The files that the process may have open, if the system permits it. Each connection is one, of callers and to the
cluster, and many systems begin with 1,024."""


_COLLECTIONS = (50_000, 10, 20)
"""The new objects before a garbage collection, and the collections of each generation before one of the next. With
Python's defaults, a busy server stops all threads for some milliseconds several times a second."""


class Main(uvicorn.Server):
    """The main listener of the server."""

    def __init__(self, settings: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(settings)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and exclude all objects up to now from garbage collection.

        A full collection would stop all threads for 100 ms to look at modules and routes, which stay anyway.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECTIONS)
        self._on_started()


def _listening(listen: str) -> socket.socket:
    """Return a socket that is bound to an address. Raises ToolError or UsageError."""
    host, port = config.address(listen)
    # asyncio sends small parts at once (TCP_NODELAY) only with a protocol number: without it, the body of each response
    # waits until the client acknowledges the head, which takes 40 ms on Linux.
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ToolError(f"the server could not listen on {listen}: {reason(error)}") from None
    return listener


def signing_secrets(settings: ServerConfig) -> SigningSecrets:
    """Return the secrets that sign callbacks. Raises ToolError or UsageError."""
    files = {name: project.signing_secret_file for name, project in settings.projects.items()}
    of_projects = {name: Path(file).expanduser() for name, file in files.items() if file}
    own = settings.callbacks.signing_secret_file
    secrets = SigningSecrets(Path(own).expanduser() if own else None, of_projects)
    secrets.read_all()
    return secrets


def issuer(settings: ServerConfig) -> Issuer | None:
    """Return the configured issuer of tokens; None without one. Raises ToolError."""
    if settings.oidc is None:
        return None
    try:
        from packager.service.access.issuer_tokens import Issuer  # noqa: PLC0415 - only sites with an issuer have the library
    except ModuleNotFoundError as error:
        raise missing_extra("oidc", error, "service", "oidc") from None
    return Issuer(settings.oidc)


def client(settings: ServerConfig, issuer: Issuer | None) -> Client | None:
    """Return the page as a client of the issuer; None if people sign in only with tokens.

    Raises ToolError or UsageError.
    """
    oidc = settings.oidc
    if issuer is None or oidc is None or oidc.client_id is None:
        return None
    file = oidc.client_secret_file
    secret = sign_in.read_secret(Path(file).expanduser()) if file else None
    return Client(issuer, oidc.client_id, secret, settings.public_url)


def demonstrate(listen: str, *, emit: Callable[[str], None], tell: Callable[[str], None]) -> None:
    """Serve a simulated cluster, with a database that is deleted at the end; for the arguments, see `start`."""
    with workfolder.temporary() as folder:
        settings = ServerConfig(listen=listen, database=str(folder / "demo.db"), projects=PROJECTS)
        start(settings, is_open=True, is_demo=True, emit=emit, tell=tell)


def _connected(settings: ServerConfig) -> kube.Cluster:
    """Return the cluster; without a kubeconfig, one that does not answer. Raises ClusterError."""
    try:
        return kube.Cluster.connect(settings.context)
    except kube.NotConfiguredError as error:
        if settings.context is not None:
            raise
        return kube.Cluster(None, str(error))


def start(
    settings: ServerConfig,
    *,
    is_open: bool,
    emit: Callable[[str], None],
    tell: Callable[[str], None],
    is_demo: bool = False,
) -> None:
    """Serve until the process gets a signal to stop. Raises UsageError, ToolError or ClusterError.

    Args:
        settings: The configuration.
        is_open: Whether requests need no token.
        emit: Writes a line to the log.
        tell: Prints a line for the person who has started the server.
        is_demo: Whether the cluster is simulated; the server then begins with some jobs.
    """
    allow_files()
    with _listening(settings.listen) as listener:
        _serve(settings, listener, is_open=is_open, is_demo=is_demo, emit=emit, tell=tell)


def allow_files() -> None:
    """Let the process have _MOST_FILES files open, or as many as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def uvicorn_config(application: Callable[..., Awaitable[None]], limits: LimitsConfig) -> uvicorn.Config:
    """Return the configuration of uvicorn for an ASGI application."""
    return uvicorn.Config(
        application,
        http="h11",
        limit_concurrency=limits.connections,
        timeout_keep_alive=_IDLE_SECONDS,
        ws="none",
        log_level="error",  # a warning would be logged for each request that is not HTTP
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )


def _key(store: Store, tell: Callable[[str], None]) -> bytes:
    """Return the key to the secrets in a database. Raises ToolError or UsageError."""
    variable = os.environ.get(config.SECRET_KEY)
    if variable:
        return sealing.key_from(variable)
    if not isinstance(store.database, Sqlite):
        raise UsageError(
            f"the database {store.shown} needs {config.SECRET_KEY}",
            hint="head -c 32 /dev/urandom | base64",
        )
    key, created = sealing.key_beside(store.database.path)
    if created:
        tell(f"created {created}, the key to the secrets in the database: keep a copy")
    return key


def _serve(  # noqa: PLR0913 - the arguments of `start`
    settings: ServerConfig,
    listener: socket.socket,
    *,
    is_open: bool,
    is_demo: bool,
    emit: Callable[[str], None],
    tell: Callable[[str], None],
) -> None:
    """Serve on a bound socket; see `start`."""
    secrets, trust = signing_secrets(settings), issuer(settings)
    gaps = confinement_gaps()
    page = client(settings, trust)
    store = open_store(settings, is_served=True)
    key = _key(store, (lambda _: None) if is_demo else tell)  # a demonstration does not need its key again
    trusted = Caller("anonymous", "anonymous", {EVERY: "admin"}, is_trusted=True) if is_open else None

    async def serve() -> None:
        cluster = SimulatedCluster() if is_demo else _connected(settings)
        server = Server(
            settings,
            store,
            cluster,
            Sealer(key),
            emit=emit,
            trusted=trusted,
            signing_secrets=secrets,
            issuer=trust,
            client=page,
            is_demo=is_demo,
        )
        filling = []

        def on_started() -> None:
            host, _ = config.address(settings.listen)
            shown = f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
            namespaces = permissions.namespaces(server.projects)
            places = f"the namespace{'s' if len(namespaces) > 1 else ''} {', '.join(namespaces)}"
            for warning in gaps:
                tell(warning)
                server.log(warning)
            tell(f"serving http://{shown}, jobs in {places}, database {store.shown}")
            if is_demo and trusted:
                tell("a demonstration: the cluster is simulated, and everything is lost when the server stops")
                filling.append(asyncio.create_task(fill(server, trusted)))
            if cluster.absent:
                tell(f"{cluster.absent}; until a kubeconfig exists, no job can be created")
            if not is_open and page is None and not store.tokens.all():
                tell("no token exists yet: `mlpack serve token NAME --role admin` creates one")

        await Main(uvicorn_config(app.make(server), server.limits), on_started).serve(sockets=[listener])

    try:
        asyncio.run(serve())
    except SystemExit:  # raised by uvicorn, which has printed the cause
        raise ToolError("the server could not start") from None
