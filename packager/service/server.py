"""Server: connects, starts and stops the parts of the task service. Tests: service/api/test_system.py."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from packager.service import config
from packager.service.access import permissions
from packager.service.access.sign_in import Sessions
from packager.service.callbacks.courier import Courier, SigningSecrets, Transport
from packager.service.callbacks.endpoints import read_receivers
from packager.service.jobs.follower import Follower, Pulse, Sweeper
from packager.service.jobs.logs import LogReader
from packager.service.jobs.make import Tasks
from packager.service.prometheus import Figures, Load
from packager.service.readiness import Readiness
from packager.service.registry.catalog import Catalog
from packager.service.registry.policy import Site
from packager.service.registry.rendering import Renderer
from packager.service.store.databases import CONNECTIONS, AwayError
from packager.service.store.models import now
from packager.service.store.store import ACTIVE, Store
from packager.service.use.events import JobEvents
from packager.service.use.jobs import Jobs
from packager.service.use.logs import Logs
from packager.service.use.registry import Projects, TaskDefinitions, TaskTemplates, Tokens
from packager.service.work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from packager.service.access.issuer_tokens import Issuer
    from packager.service.access.sign_in import Client
    from packager.service.access.tokens import Caller
    from packager.service.config import ServerConfig
    from packager.service.jobs.kube import Cluster
    from packager.service.sealing import Sealer

_RESTART_SECONDS = 5.0

_SWITCH_SECONDS = 0.0001
"""The seconds that a computing thread may block the others, such as the one that answers requests; Python's default
is 0.005. Reading a row from SQLite gives the interpreter's lock away, so a list of 50 jobs waits for it 50 times."""

_THREADS = CONNECTIONS - 6
"""The maximum number of threads that only use the database, which has a connection for each thread; see `Work`."""


class Server:
    """One task service."""

    def __init__(  # noqa: PLR0913 - the parts that it connects
        self,
        settings: ServerConfig,
        store: Store,
        cluster: Cluster,
        sealer: Sealer,
        *,
        emit: Callable[[str], None],
        trusted: Caller | None = None,
        transport: Transport | None = None,
        signing_secrets: SigningSecrets | None = None,
        issuer: Issuer | None = None,
        client: Client | None = None,
        is_demo: bool = False,
    ) -> None:
        self.is_demo = is_demo  # whether the cluster is simulated
        # the address of the documents, to which views link; None without links
        self.documentation = settings.documentation
        self.name = settings.name  # the name in the labels of its objects in the cluster
        self.store = store
        self.cluster = cluster
        self.sealer = sealer
        self.trusted = trusted  # the identity of all callers if no token is required; None otherwise
        # the issuer whose tokens are accepted in addition to those of the server; None to accept no others
        self.issuer = issuer
        self.client = client  # the page as a client of the issuer; None if people sign in only with tokens
        self.sessions = Sessions(sealer, store, client)  # the sessions of the page
        self.root = settings.root  # the path prefix of the public address; empty for none
        self.limits = settings.limits  # the limits for callers, projects and addresses
        # the origin of the public address, in lower case; empty if no address is configured
        self.origin = (settings.url or "").rstrip("/").removesuffix(settings.root).lower()
        # the projects of jobs, by name. jobs, logs, events, templates, definitions, tokens, project_use: The
        # operations of callers
        self.projects = permissions.of_settings(settings, cluster.namespace)
        self.pulse = Pulse()  # notifies waiting callers about events of jobs
        self._emit = emit
        site = Site(settings.name, settings.pod_security, settings.storage_classes, settings.node_selectors)
        self.figures = Figures()  # the metrics for Prometheus
        self.work = Work()
        self._renderer = Renderer()
        self.catalog = Catalog(store, self._renderer, site, self.projects)
        self.follower: Follower
        of_follower = (lambda job: self.follower.pods(job), lambda *job: self.follower.look_at(*job))  # noqa: PLW0108
        self._logs = LogReader(cluster, store, settings.name, self.work, self.log, *of_follower)
        self.follower = Follower(
            cluster, store, sealer, settings.name, self.projects, self.pulse, self._logs, self.log, self.figures
        )
        self._sweeper = Sweeper(store, settings.retention, self.follower.created, self.log)
        allowed, _ = read_receivers(settings.callbacks.allow)
        self.tasks = Tasks(
            self.catalog,
            cluster,
            self.follower,
            sealer,
            self.projects,
            allowed,
            self.work,
            settings.limits,
        )
        self.courier = Courier(
            store.outbox,
            sealer,
            transport or Transport(allowed),
            url=settings.public_url,
            secrets=signing_secrets or SigningSecrets(),
            log=self.log,
        )
        self.pulse.on_change.append(self.courier.wake)
        self.jobs = Jobs(self.tasks, self._logs)
        self.logs = Logs(store, cluster, settings.name)
        self.events = JobEvents(store, self.pulse)
        self.templates, self.definitions = TaskTemplates(self.tasks), TaskDefinitions(self.tasks)
        self.tokens = Tokens(store, self.projects, settings.limits.project_tokens)
        self.project_use = Projects(store, self.projects)
        # the check whether the server can work
        self.readiness = Readiness(store, cluster, permissions.namespaces(self.projects)[0], self.log)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the loops of the server while the block runs; then close all parts. A failed loop stops no other."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="database")
        asyncio.get_running_loop().set_default_executor(threads)
        await asyncio.to_thread(self.catalog.add_bundled)
        runs = (self.follower.run, self.courier.run, self._sweeper.run, self._logs.run, self.readiness.run)
        loops = [asyncio.create_task(self._kept_up(run)) for run in runs]
        try:
            yield
        finally:
            for loop in loops:
                loop.cancel()
            for loop in loops:
                with suppress(asyncio.CancelledError):
                    await loop
            await self._logs.close()
            await self.courier.close()
            await self.cluster.close()
            self.close()

    def close(self) -> None:
        """End the threads and the child processes, and close the database."""
        self.work.close()
        self._renderer.close()
        self.store.close()

    async def _kept_up(self, work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` again whenever it ends or fails, until cancelled."""
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await work()
            except AwayError as error:
                self.log(str(error))
            except Exception as error:  # noqa: BLE001 - the work begins again
                self.log_bug(error)
            # A group of tasks that fails while it is cancelled raises the failure and not the cancellation.
            if task.cancelling():
                raise asyncio.CancelledError
            await asyncio.sleep(_RESTART_SECONDS)

    def load(self) -> Load:
        """Return the numbers of jobs and callbacks in the database. Raises AwayError."""
        counts = {(project, status): 0 for project in self.projects for status in ACTIVE}
        jobs, gpus = {**counts}, {**counts}
        for row in self.store.usage():
            key = (row.project, row.status)
            jobs[key], gpus[key] = row.jobs, row.gpus
        return jobs, gpus, self.store.outbox.waiting()

    def log(self, message: str, **fields: str) -> None:
        """Write a line of JSON to the log: the time, the message and further fields."""
        self._emit(json.dumps({"time": now(), "message": message, **fields}, ensure_ascii=False))

    def log_bug(self, error: BaseException, **fields: str) -> None:
        """Write an unexpected error to the log, with its traceback."""
        self.log("".join(traceback.format_exception(error)), **fields)


def open_store(settings: ServerConfig, *, is_served: bool = False, migrates: bool = True) -> Store:
    """Return the database of a configuration; for the other arguments, see `Store`. Raises ToolError or UsageError."""
    return Store(settings.database or config.default_database(), is_served=is_served, migrates=migrates)
