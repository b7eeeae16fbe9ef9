"""The control loop: applies jobs, follows them in the cluster, and stores their status.

The cluster is the authority on running objects, and the database on requested jobs: after a restart, missing objects
are applied, and the others are followed.

Tests: service/api/test_jobs.py.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from packager.base import jsonio, units
from packager.base.errors import MlpackError
from packager.base.values import replace
from packager.diagnosis.diagnose import diagnose
from packager.diagnosis.past import Memory
from packager.diagnosis.queued import held
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import labels, name
from packager.kubernetes.pods import state
from packager.kubernetes.verdict import Phase
from packager.service.access import permissions
from packager.service.jobs import apply
from packager.service.jobs.kube import RefusedError
from packager.service.jobs.mirror import Mirror
from packager.service.jobs.user_hints import failure_line, hint_for_user
from packager.service.registry.catalog import read_definition
from packager.service.registry.policy import JOB
from packager.service.store import models
from packager.service.store.models import now
from packager.service.store.quota import Quota
from packager.service.store.store import FINAL
from packager.workloads import kueue
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Finding, Verdict
    from packager.service.access.permissions import Project
    from packager.service.config import RetentionConfig
    from packager.service.jobs.kube import Cluster
    from packager.service.jobs.logs import LogReader
    from packager.service.prometheus import Figures
    from packager.service.sealing import Sealer
    from packager.service.store.models import StoredJob, StoredStatus
    from packager.service.store.store import Store


TICK = 10.0
"""The seconds between two checks of jobs without news from a watch: some findings appear only after some time."""

_SELDOM = 6
"""The number of ticks between two checks of a job that runs without a finding."""

_AT_ONCE = 4
"""The number of jobs of a namespace that are checked at once: slow requests do not delay the others."""


class Follower:
    """Manages the jobs of one server, in all its namespaces."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        cluster: Cluster,
        store: Store,
        sealer: Sealer,
        server: str,
        projects: Mapping[str, Project],
        pulse: Pulse,
        logs: LogReader,
        log: Callable[[str], None],
        figures: Figures,
    ) -> None:
        self._logs = logs
        self._cluster = cluster
        self._store = store
        self._sealer = sealer
        self._server = server
        self._projects = projects
        self._pulse = pulse
        self._log = log
        self._figures = figures
        self._mirrors: dict[str, Mirror] = {}
        self._queues: dict[str, list[JobQueue]] = {}  # of each namespace
        self._memories: dict[str, Memory] = {}
        self._missing: dict[str, int] = {}

    async def run(self) -> None:
        """Manage the jobs until cancelled."""
        in_use = await asyncio.to_thread(self._store.namespaces_in_use)
        self._mirrors = {
            namespace: Mirror(
                self._cluster,
                self._server,
                namespace,
                partial(self.look_at, namespace=namespace),
                self._log,
            )
            for namespace in dict.fromkeys((*permissions.namespaces(self._projects), *in_use))
        }
        self._queues = {namespace: [JobQueue() for _ in range(_AT_ONCE)] for namespace in self._mirrors}
        try:
            async with asyncio.TaskGroup() as tasks:
                for mirror in self._mirrors.values():
                    tasks.create_task(mirror.run())
                tasks.create_task(self._tick())
                for queue in itertools.chain(*self._queues.values()):
                    tasks.create_task(self._work(queue))
        finally:
            for state in (self._queues, self._mirrors, self._memories, self._missing):
                state.clear()

    def pods(self, job: StoredStatus) -> tuple[Object, ...]:
        """Return the pods of a job that the watches have reported."""
        mirror = self._mirrors.get(job.namespace)
        return mirror.pods(job.release) if mirror else ()

    def look_at(self, release: str, namespace: str, *, is_news: bool = True) -> None:
        """Check a job soon; without news, after the jobs with news."""
        if queues := self._queues.get(namespace):
            queues[hash(release) % _AT_ONCE].add(release, is_news=is_news)

    def created(self, release: str, namespace: str) -> None:
        """Check a job soon, and notify waiting callers of its event."""
        self.look_at(release, namespace)
        self._pulse.tell()

    async def _tick(self) -> None:
        for turn in itertools.count():
            is_new = turn < _SELDOM  # no watch reports a deletion from before the start
            waiting: dict[str, StoredStatus] = {}
            for job in await asyncio.to_thread(self._store.unfinished):
                if self._waits_for_room(job):
                    waiting[job.project] = job
                # the watches report every change of a job that runs without a finding
                elif (
                    is_new
                    or (job.status, job.applied, job.goal, job.reason) != _WELL
                    or (sum(job.release.encode()) + turn) % _SELDOM == 0
                ):
                    self.look_at(job.release, job.namespace, is_news=False)
            for job in waiting.values():
                await self._admit(job)
            await asyncio.sleep(TICK)

    async def _work(self, queue: JobQueue) -> None:
        while True:
            release = await queue.take()
            try:
                await self._look(release)
            except MlpackError as error:
                self._log(f"{release}: {error}")
            except Exception as error:  # noqa: BLE001 - an error of one job must not stop the checks of others
                self._log(f"{release}: {type(error).__name__}: {error}")

    async def _look(self, release: str) -> None:
        job = await asyncio.to_thread(self._store.job, release)
        mirror = self._mirrors.get(job.namespace) if job else None
        if job is None or mirror is None:
            return
        if job.goal != "run":
            await self._stop(job)
        elif job.status in FINAL:
            self._forget(release)
        elif self._waits_for_room(job):
            await self._admit(job)
        elif not job.applied:
            await self._apply(job)
        elif mirror.knows(job.kind):
            await self._judge(job, mirror)

    def _waits_for_room(self, job: StoredStatus) -> bool:
        """Whether a job is queued by the limits of its project, and not by Kueue."""
        project = self._projects.get(job.project)
        by_kueue = project is not None and project.queue is not None
        return job.goal == "run" and job.status == "queued" and not job.applied and not by_kueue

    async def _admit(self, job: StoredStatus) -> None:
        """Admit the waiting jobs of a job's project for which there is room."""
        project = self._projects.get(job.project)
        for release in await asyncio.to_thread(
            self._store.admit, job.project, project.own_limits if project else Quota()
        ):
            self.created(release, job.namespace)

    async def _apply(self, job: StoredJob) -> None:
        """Apply the objects of a job; if the API server refuses one, the job fails."""
        items, namespace = await asyncio.to_thread(apply.objects, job, self._sealer), job.namespace
        try:
            await apply.apply_objects(self._cluster, items, namespace)
        except RefusedError as error:
            if error.code >= 500 or error.code in (409, 429):
                raise
            await self._delete_objects(job, with_claims=False)
            await self._end(job, "failed", "ClusterRefused", str(error))
            return
        await asyncio.to_thread(self._store.mark_applied, job.release)
        self.look_at(job.release, job.namespace)

    async def _stop(self, job: StoredJob) -> None:
        """Delete the objects of a cancelled or deleted job; its claims only if the goal is delete-storage."""
        goal, release = job.goal, job.release
        if goal == "cancel" and job.applied and not self._logs.has_kept(job, is_final=True):
            return
        await self._delete_objects(job, with_claims=goal == "delete-storage")
        if job.status not in FINAL:
            reason = "Cancelled" if goal == "cancel" else "Deleted"
            await self._end(job, "deleted", reason, "the job was cancelled" if goal == "cancel" else "was deleted")
        if goal == "cancel":
            is_done = await asyncio.to_thread(self._store.settle, release)
        else:
            is_done = await asyncio.to_thread(self._store.remove_job, release, goal)
        if not is_done:  # meanwhile it was deleted as well, or with its storage
            self.look_at(release, job.namespace)
        self._pulse.tell()

    async def _delete_objects(self, job: StoredJob, *, with_claims: bool) -> None:
        """Delete the objects of a job that have the label of the job.

        The server can neither read nor delete Secrets: the cluster deletes them with their owner.
        """
        release, namespace = job.release, job.namespace
        for item in reversed(job.objects):
            kind = item["kind"]
            if kind == "Secret" or (kind == "PersistentVolumeClaim" and not with_claims):
                continue
            current = await self._cluster.get(kind, name(item), namespace)
            if current is not None and labels(current).get(JOB) != release:
                self._log(f"{release}: {kind} {name(item)} was made by others, and is not deleted")
            elif current is not None:
                await self._cluster.delete(kind, name(item), namespace)

    async def _judge(self, job: StoredJob, mirror: Mirror) -> None:
        """Store the status of an applied job, as it is in the cluster."""
        release = job.release
        kind = kinds()[job.kind]
        workload = mirror.workload(release, job.kind, job.workload)
        if workload is None:
            await self._judge_missing(job)
            return
        self._missing.pop(release, None)
        snapshot = await mirror.snapshot(release, workload)
        if kind.ending(snapshot) is not None:  # the stored end of a job does not change later
            snapshot = await mirror.with_pods_of_now(release, snapshot)
        memory = self._memories.setdefault(release, Memory(kind))
        past = memory.add(snapshot, asyncio.get_running_loop().time())
        verdict = diagnose(kind, snapshot, past)
        hints: Sequence[str | None] = [None] * len(verdict.findings)
        if any(finding.remedy for finding in verdict.findings):
            hints = await asyncio.to_thread(self._hints, job, verdict.findings)
        changed = _changed(job, verdict, hints, snapshot)
        has_ended = changed.status in FINAL
        if changed == job or not self._logs.has_kept(job, is_final=has_ended, pods=snapshot.pods):
            return
        if changed.status == "failed":
            changed = replace(changed, log_line=await asyncio.to_thread(failure_line, self._store.logs, changed))
        if await asyncio.to_thread(self._store.change_job, changed):
            self._pulse.tell()
            if has_ended:
                self._figures.ended(job.project, changed.status)
        if has_ended:
            self._forget(release)
            await self._admit(job)

    def _hints(self, job: StoredJob, findings: Sequence[Finding]) -> list[str | None]:
        """Return the remedy of each finding in words for the user of the job; None without a remedy."""
        revision = self._store.revisions.get(models.StoredDefinition, job.definition, job.definition_revision)
        definition, filled = read_definition(revision), job.values
        remedies = [finding.remedy for finding in findings]
        return [None if one is None else hint_for_user(one, filled, definition) for one in remedies]

    async def _judge_missing(self, job: StoredJob) -> None:
        """End a job whose workload is not in the cache and twice not in the cluster: another client has deleted it."""
        release = job.release
        if await self._cluster.get(job.kind, job.workload, job.namespace) is not None:
            self._missing.pop(release, None)
            return
        self._missing[release] = self._missing.get(release, 0) + 1
        if self._missing[release] > 1:
            await self._end(job, "deleted", "DeletedInCluster", f"the {job.kind} was deleted in the cluster")
        else:
            asyncio.get_running_loop().call_later(1.0, self.look_at, release, job.namespace)

    async def _end(self, job: StoredJob, status: str, reason: str, message: str) -> None:
        ended = replace(job, status=status, reason=reason, message=message, hint=None, ended=now())
        if await asyncio.to_thread(self._store.change_job, ended):
            self._figures.ended(job.project, status)
        self._forget(job.release)
        self._pulse.tell()
        await self._admit(job)

    def _forget(self, release: str) -> None:
        self._memories.pop(release, None)
        self._missing.pop(release, None)
        self._logs.forget(release)


_WELL = ("running", True, "run", None)

_STATUSES = {
    Phase.SUCCEEDED: "succeeded",
    Phase.FAILED: "failed",
    Phase.RUNNING: "running",
    Phase.SERVING: "running",
}


def _changed(job: StoredJob, verdict: Verdict, hints: Sequence[str | None], snapshot: Snapshot) -> StoredJob:
    """Return a job with its state in the cluster, and with the hints of its findings."""
    status = _STATUSES.get(verdict.phase, "pending")
    job = replace(job, pods=jsonio.compact([_pod(pod) for pod in snapshot.pods]))
    if kueue.of(snapshot.workload) and status not in FINAL and kueue.is_held(snapshot.workload):
        return _held(job, verdict, hints, snapshot)
    if status == "pending" and job.started:
        status = "running"  # a started job that is stuck is not pending again
    first = verdict.findings[0] if verdict.findings else None
    attempts = kinds()[job.kind].attempts(snapshot) or 0
    findings = [{**finding.as_json(), "hint": hint} for finding, hint in zip(verdict.findings, hints, strict=True)]
    return replace(
        job,
        status=status,
        attempts=max(attempts, job.attempts or 0) or None,  # a cluster forgets attempts that a queue has stopped
        reason=first.reason if first else None,
        message=first.message if first else verdict.summary,
        hint=hints[0] if hints else None,
        findings=jsonio.compact(findings),
        started=job.started or (now() if status != "pending" else None),
        ended=now() if status in FINAL else job.ended,
    )


def _held(job: StoredJob, verdict: Verdict, hints: Sequence[str | None], snapshot: Snapshot) -> StoredJob:
    """Return a job that Kueue holds, with the reason that Kueue gives, if the server may read it."""
    job = replace(job, status="queued", reason="Queued", hint=None, findings="[]")
    reason = held(snapshot)
    for finding, hint in zip(verdict.findings, hints, strict=True):
        if reason is not None and finding.reason == reason.reason:
            findings = jsonio.compact([{**finding.as_json(), "hint": hint}])
            return replace(job, reason=finding.reason, message=finding.message, hint=hint, findings=findings)
    return replace(job, message=f"Kueue holds it in the queue {kueue.of(snapshot.workload)!r}")


def _pod(pod: Object) -> dict[str, object]:
    statuses = mapping(pod.get("status")).get("containerStatuses") or ()
    return {
        "name": name(pod),
        "state": state(pod),
        "restarts": sum(int(entry.get("restartCount", 0)) for entry in statuses),
        "node": pod["spec"].get("nodeName"),
    }


_EVERY_SECONDS = 600.0
_DELETED_AT_ONCE = 200

ACTOR = "retention"
"""The actor in the events of jobs that are deleted because of their age."""


class Sweeper:
    """Deletes old jobs and logs."""

    def __init__(
        self,
        store: Store,
        retention: RetentionConfig,
        deleted: Callable[[str, str], None],
        log: Callable[[str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._retention = retention
        self._deleted = deleted
        self._log = log
        self._clock = clock

    async def run(self) -> None:
        """Delete old jobs and logs now and every ten minutes, until cancelled."""
        while True:
            try:
                await self.sweep()
            except MlpackError as error:
                self._log(f"what is too old cannot be deleted: {error}")
            await asyncio.sleep(_EVERY_SECONDS)

    async def sweep(self) -> None:
        """Delete old logs, and request the deletion of old jobs with their objects, except claims."""
        logs = models.as_text(self._clock() - units.duration(self._retention.logs))
        if count := await asyncio.to_thread(self._store.logs.remove_before, logs):
            self._log(f"{count} logs from before {logs} were deleted")
        if self._retention.jobs is None:
            return
        ended = models.as_text(self._clock() - units.duration(self._retention.jobs))
        for release in await asyncio.to_thread(self._store.ended_before, ended, _DELETED_AT_ONCE):
            if job := await asyncio.to_thread(self._store.want, release, "delete", ACTOR):
                self._log(f"{release}: ended before {ended}, is deleted")
                self._deleted(release, job.namespace)


class JobQueue:
    """The jobs that a task looks at one after the other: first those with news, in their order, each once."""

    def __init__(self) -> None:
        self._news: dict[str, None] = {}
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()

    def add(self, release: str, *, is_news: bool = True) -> None:
        """Add a job, unless it waits already: with news, or for a regular check."""
        (self._news if is_news else self._due).setdefault(release)
        self._wake.set()

    async def take(self) -> str:
        """Wait for the next job, and return its release."""
        while not (waiting := self._news or self._due):
            self._wake.clear()
            await self._wake.wait()
            await asyncio.sleep(0.05)  # simultaneous changes of a job cause one check
        release = next(iter(waiting))
        del waiting[release]
        return release


class Pulse:
    """A counter of changes, with a method to wait for the next one."""

    def __init__(self) -> None:
        self.generation = 0  # the number of changes
        self.on_change: list[Callable[[], None]] = []  # the functions that are called at each change
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Count a change, wake waiting tasks, and call the functions in `on_change`."""
        self.generation += 1
        current, self._next = self._next, asyncio.Event()
        current.set()
        for call in self.on_change:
            call()

    async def wait(self, generation: int, seconds: float) -> bool:
        """Return True when the generation differs from `generation`, or False after `seconds`."""
        if self.generation == generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._next.wait()
        return self.generation != generation
