"""Server: connects, starts and stops the parts of the task service. Tests: service/api/test_system.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from packager.service import config, processor
from packager.service.access import projects
from packager.service.access.sessions import Sessions
from packager.service.callbacks.addresses import read_allowed
from packager.service.callbacks.courier import Courier
from packager.service.callbacks.signature import SigningSecrets
from packager.service.callbacks.transport import Transport
from packager.service.fair_queues import FairPool
from packager.service.jobs.follower import Follower
from packager.service.jobs.kept_logs import Keeper
from packager.service.jobs.limits import Room
from packager.service.jobs.pulse import Pulse
from packager.service.jobs.recorder import Recorder
from packager.service.jobs.references import References
from packager.service.jobs.sweeper import Sweeper
from packager.service.jobs.tasks import Tasks
from packager.service.processor import MeasuredThreads
from packager.service.prometheus import Figures, Load
from packager.service.readiness import Readiness
from packager.service.registry.catalog import Catalog
from packager.service.registry.checker import Checker
from packager.service.registry.packages.reading import PackageReader
from packager.service.registry.packages.registries import read_registries
from packager.service.registry.packages.sources import PackageSources
from packager.service.registry.policy import Site
from packager.service.registry.rendering import Renderer
from packager.service.store.databases import CONNECTIONS, AwayError, Postgres
from packager.service.store.store import ACTIVE, Store
from packager.service.times import now
from packager.service.use.events import JobEvents
from packager.service.use.jobs import Jobs
from packager.service.use.logs import Logs
from packager.service.use.projects import Projects
from packager.service.use.registry import TaskDefinitions, TaskTemplates
from packager.service.use.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from packager.kubernetes.objects import Object
    from packager.service.access.oidc import Issuer
    from packager.service.access.sign_in import Client
    from packager.service.access.tokens import Caller
    from packager.service.config import ServerConfig
    from packager.service.jobs.kube import Cluster
    from packager.service.registry.bodies import DefinitionBody
    from packager.service.registry.checker import CheckedDefinition
    from packager.service.sealing import Sealer
    from packager.service.store.rows import StoredStatus

_RESTART_SECONDS = 5.0

_SWITCH_SECONDS = 0.0001
"""The seconds that a computing thread may block the others, such as the one that answers requests; Python's default
is 0.005. Reading a row from SQLite gives the interpreter's lock away, so a list of 50 jobs waits for it 50 times."""

_RENDERING = 4
_CHECKING = 2
_READING = 3
_MOST_WAITING = 8
"""The numbers of threads that render templates, that wait for checks of definitions and that read packages, and of a
caller's waiting requests for each."""

_THREADS = CONNECTIONS - _RENDERING - _CHECKING - _READING
"""The maximum number of threads that only use the database, which has a connection for each thread."""


class Server:
    """One task service.

    Attributes:
        name: The name in the labels of its objects in the cluster.
        projects: The projects of jobs, by name.
        jobs, logs, events, templates, definitions, tokens, project_use: The operations of callers.
        pulse: Notifies waiting callers about events of jobs.
        readiness: The check whether the server can work.
        figures: The metrics for Prometheus.
        trusted: The identity of all callers if no token is required; None otherwise.
        issuer: The issuer whose tokens are accepted in addition to those of the server; None to accept no others.
        client: The page as a client of the issuer; None if people sign in only with tokens.
        sessions: The sessions of the page.
        root: The path prefix of the public address; empty for none.
        limits: The limits for callers, projects and addresses.
        is_demo: Whether the cluster is simulated.
        documentation: The address of the documents, to which views link; None without links.
        origin: The origin of the public address, in lower case; empty if no address is configured.
    """

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
        checker: Checker | None = None,
        is_demo: bool = False,
    ) -> None:
        self.is_demo = is_demo
        self.documentation = settings.documentation
        self.name = settings.name
        self.store = store
        self.cluster = cluster
        self.sealer = sealer
        self.trusted = trusted
        self.issuer = issuer
        self.client = client
        self.sessions = Sessions(sealer, store, client)
        self.root = settings.root
        self.limits = settings.limits
        self.origin = (settings.url or "").rstrip("/").removesuffix(settings.root).lower()
        self.projects = projects.of_settings(settings, cluster.namespace)
        self.pulse = Pulse()
        self._emit = emit
        site = Site(settings.name, settings.pod_security, settings.storage_classes, settings.node_selectors)
        self.figures = Figures()
        self._renderer = Renderer(self._rendered)
        self._checker = checker or Checker()
        self._owns_checker = checker is None
        self.catalog = Catalog(store, self._renderer, self._check, site, self.projects, _package_reader(settings))
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        self._rendering = FairPool("rendering", threads=_RENDERING, share=share, most=_MOST_WAITING)
        self._checking = FairPool("checking", threads=_CHECKING, share=1, most=_MOST_WAITING)
        self._reading = FairPool("package", threads=_READING, share=1, most=_MOST_WAITING)
        self.recorder = Recorder(cluster, store, settings.name, self.log, self._pods)
        self._keeper = Keeper(cluster, store.logs, settings.name, self._look_at, self.log, self.recorder.record)
        self.follower = Follower(
            cluster, store, sealer, settings.name, self.projects, self.pulse, self._keeper, self.log, self.figures
        )
        self._sweeper = Sweeper(store, settings.retention, self.follower.created, self.log)
        allowed, _ = read_allowed(settings.callbacks.allow, settings.callbacks.ports)
        references = References(cluster, settings.name, self.projects)
        room, rendering = Room(store, settings.limits), self._rendering
        self.tasks = Tasks(
            self.catalog, cluster, references, self.follower, sealer, self.projects, allowed, rendering, room
        )
        self.courier = Courier(
            store.outbox,
            sealer,
            transport or Transport(allowed),
            url=settings.public_url,
            secrets=signing_secrets or SigningSecrets(),
            log=self.log,
            attempted=self.figures.attempted,
        )
        self.pulse.on_change.append(self.courier.wake)
        self.jobs = Jobs(store, self.tasks, sealer, self.recorder, self.courier, self.projects)
        self.logs = Logs(store, cluster, settings.name)
        self.events = JobEvents(store, self.pulse, sealer)
        self.templates = TaskTemplates(self.catalog, self._rendering)
        pools = (self._checking, self._reading)
        self.definitions = TaskDefinitions(self.catalog, self.tasks, self.projects, *pools, settings.limits)
        self.tokens = Tokens(store, self.projects, settings.limits.project_tokens)
        self.project_use = Projects(store, self.projects)
        self.readiness = Readiness(store, cluster, projects.namespaces(self.projects)[0], self.log)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the loops of the server while the block runs; then close all parts."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        asyncio.get_running_loop().set_default_executor(MeasuredThreads(_THREADS, thread_name_prefix="database"))
        await asyncio.to_thread(self.catalog.add_bundled)
        loops = [asyncio.create_task(self._kept_up(self._lead))]
        if isinstance(self.store.database, Postgres):
            loops.append(asyncio.create_task(self._kept_up(self._listen)))
        try:
            yield
        finally:
            for loop in loops:
                loop.cancel()
            for loop in loops:
                with suppress(asyncio.CancelledError):
                    await loop
            await self._keeper.close()
            await self.courier.close()
            await self.cluster.close()
            self.close()

    def close(self) -> None:
        """End the threads and the child processes, and close the database."""
        self._reading.close()
        self._checking.close()
        self._rendering.close()
        self._renderer.close()
        if self._owns_checker:
            self._checker.close()
        self.store.close()

    def _rendered(self, seconds: float) -> None:
        """Count the seconds of a child process, which computes meanwhile."""
        self.figures.rendered(seconds)
        processor.current().add(seconds)

    def _check(self, body: DefinitionBody, template: str | None, site: Site) -> CheckedDefinition:
        """Check a definition, and count the seconds of the child process that does it. Raises as `Checker.check`."""
        begun = time.monotonic()
        try:
            return self._checker.check(body, template, site)
        finally:
            seconds = time.monotonic() - begun
            self.figures.checked(seconds)
            processor.current().add(seconds)

    def _look_at(self, release: str) -> None:
        self.follower.look_at(release)

    def _pods(self, row: StoredStatus) -> tuple[Object, ...]:
        return self.follower.pods(row)

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

    async def _lead(self) -> None:
        """Manage jobs and callbacks, as the only one of several replicas."""
        database = self.store.database
        if isinstance(database, Postgres):
            from packager.service.store import replicas  # noqa: PLC0415 - SQLite needs no psycopg

            await replicas.lead(database.conninfo, self._look_after)
        else:
            await self._look_after()

    async def _look_after(self) -> None:
        """Run the loops of the leader; a failed loop does not stop the others."""
        with self.figures.leading(self._load):
            async with asyncio.TaskGroup() as tasks:
                for run in (self.follower.run, self.courier.run, self._sweeper.run, self.recorder.run):
                    tasks.create_task(self._kept_up(run))

    async def _listen(self) -> None:
        """Receive notifications about events that other replicas have stored."""
        from packager.service.store import replicas  # noqa: PLC0415 - SQLite needs no psycopg

        assert isinstance(self.store.database, Postgres)
        await replicas.listen(self.store.database.conninfo, self._heard)

    def _heard(self, release: str | None) -> None:
        if release is not None:
            self.follower.look_at(release)
        self.pulse.tell()

    def _load(self) -> Load:
        """Return the numbers of jobs and callbacks in the database. Raises AwayError."""
        counts = {(project, status): 0 for project in self.projects for status in ACTIVE}
        jobs, gpus = {**counts}, {**counts}
        for row in self.store.usage_of_all():
            key = (row.project, row.status)
            jobs[key], gpus[key] = row.jobs, row.gpus
        return Load(jobs, gpus, self.store.outbox.waiting())

    def log(self, message: str, **fields: str) -> None:
        """Write a line of JSON to the log: the time, the message and further fields."""
        self._emit(json.dumps({"time": now(), "message": message, **fields}, ensure_ascii=False))

    def log_bug(self, error: BaseException, **fields: str) -> None:
        """Write an unexpected error to the log, with its traceback."""
        self.log("".join(traceback.format_exception(error)), **fields)


def _package_reader(settings: ServerConfig) -> PackageReader:
    folder = settings.packages.folder
    common = read_registries(settings.packages.registries, "packages.registries")
    own = {
        name: read_registries(project.registries, f"projects.{name}.registries")
        for name, project in settings.projects.items()
    }
    return PackageReader(PackageSources(Path(folder).expanduser() if folder else None, common, own))


def open_store(settings: ServerConfig, *, is_served: bool = False, migrates: bool = True) -> Store:
    """Return the database of a configuration; for the other arguments, see `Store`. Raises ToolError or UsageError."""
    return Store(settings.database or config.default_database(), is_served=is_served, migrates=migrates)
