"""Creates jobs from filled values, and changes their goals. Tests: service/api/test_jobs.py."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, UnreachableError
from packager.base.values import replace
from packager.kubernetes.manifest import mapping
from packager.service.access import permissions
from packager.service.complaints import Complaint
from packager.service.failures import Failure
from packager.service.fair_queues import FairPool, Owner
from packager.service.jobs import applying
from packager.service.jobs.batches import Batches
from packager.service.jobs.kube import RefusedError
from packager.service.jobs.preparation import Filled, Preparation, Prepared
from packager.service.registry import policy
from packager.service.store.store import NewJob, QueueFullError, SameNameError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.access.projects import Project
    from packager.service.access.tokens import Caller
    from packager.service.callbacks.addresses import Allowed
    from packager.service.jobs.follower import Follower
    from packager.service.jobs.kube import Cluster
    from packager.service.jobs.limits import Room
    from packager.service.jobs.references import References
    from packager.service.registry.catalog import Catalog
    from packager.service.registry.policy import Accepted
    from packager.service.sealing import Sealer
    from packager.service.store.rows import RequestKey, StoredJob


_MOST_PREPARED = 16
_MOST_STORED = 64
"""The maximum numbers of jobs in a batch of preparations, and in a transaction, which blocks other writes."""


class Tasks:
    """The jobs of a server.

    Args:
        catalog: The templates and definitions of jobs.
        cluster: The cluster in which the jobs run.
        references: Decides which objects of the cluster jobs may use.
        follower: The control loop, which is notified about changes.
        sealer: Encrypts the headers and secrets of jobs.
        projects: The projects of the server, by name.
        allowed: The permitted receivers of callbacks.
        rendering: The threads that render objects.
        room: The limits on the number of jobs.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        catalog: Catalog,
        cluster: Cluster,
        references: References,
        follower: Follower,
        sealer: Sealer,
        projects: Mapping[str, Project],
        allowed: Allowed,
        rendering: FairPool,
        room: Room,
    ) -> None:
        self._store = catalog.store
        self._preparation = Preparation(catalog, sealer, allowed)
        self._rendering = rendering
        self._room = room
        self._preparing: dict[str, Batches[Filled, Prepared]] = {}
        self._storing: Batches[NewJob, StoredJob] = Batches(catalog.store.add_jobs, _MOST_STORED)
        self._cluster = cluster
        self._references = references
        self._follower = follower
        self._projects = projects

    async def prepare(self, filled: Filled, *, dry_run: bool) -> Prepared:
        """Check filled values, also with a dry run on the cluster, and return the job.

        Args:
            filled: The values.
            dry_run: Whether to warn about things that the cluster lacks, instead of refusing the job.

        Raises:
            Failure: The values, the template, the policy or the cluster refuse the job; or, without a dry run, the
                cluster does not answer.
        """
        prepared = await self._made(filled)
        self._room.check_pods(prepared.objects)
        project = filled.project
        try:
            refused, missing = await self._references.check(prepared.objects, project)
            if refused:
                complaints = [Complaint("", message) for message in refused]
                raise Failure("policy", "the job uses objects that are not its project's", complaints)
            warnings = [*await self._lacks(prepared.objects), *missing]
            if warnings and not dry_run:
                complaints = [Complaint("", warning) for warning in warnings]
                raise Failure("cluster-refused", "the cluster lacks what the job needs", complaints)
            await applying.try_objects(self._cluster, prepared.objects, project.namespace)
        except RefusedError as error:
            raise Failure("cluster-refused", str(error)) from None
        except UnreachableError as error:
            if not dry_run:
                raise Failure("cluster-unreachable", str(error)) from None
            warnings = [f"not checked against the cluster: {error}"]
        return Prepared(prepared.job, prepared.objects, tuple(warnings))

    async def _made(self, filled: Filled) -> Prepared:
        """Return the job for filled values, prepared in a batch with others of its project. Raises Failure."""
        name = filled.project.name
        if name not in self._preparing:
            run = partial(self._rendering.run, Owner(name, "jobs"))
            self._preparing[name] = Batches(self._preparation.jobs, _MOST_PREPARED, run)
        return await self._preparing[name].add(Owner(name, filled.caller.key), filled)

    def project(self, name: object, caller: Caller) -> Project:
        """Return the project of a new job: the one that the body names, or the only possible one. Raises Failure."""
        return permissions.project_of_job(caller, name, self._projects)

    async def warnings(self, trial: Accepted) -> list[str]:
        """Return the warnings about a definition: remarks on its objects, and things that this cluster lacks for them.

        If the cluster does not answer, a warning reports this.
        """
        try:
            return [*trial.remarks, *await self._lacks(trial.objects)]
        except ClusterError as error:
            return [*trial.remarks, f"not checked against the cluster: {error}"]

    async def _lacks(self, objects: Sequence[Object]) -> list[str]:
        """Return messages about the storage classes and nodes that objects need and this cluster lacks."""
        lacks = [
            f"the cluster has no storage class {name!r}: map it in storage_classes of the server"
            for name in policy.storage_classes(objects)
            if await self._unless_hidden("StorageClass", name) == []
        ]
        selectors = policy.node_selectors(objects)
        nodes = await self._unless_hidden("Node") if selectors else None
        for selector in selectors if nodes is not None else ():
            if not any(selector.items() <= mapping(node["metadata"].get("labels")).items() for node in nodes or ()):
                labels = ", ".join(f"{key}={value}" for key, value in selector.items())
                lacks.append(f"no node has the labels {labels}: map them in node_selectors of the server")
        return lacks

    async def _unless_hidden(self, kind: str, name: str | None = None) -> list[Object] | None:
        """Return the objects of a kind, or only the one with a name; None if the server may not read them."""
        try:
            if name is None:
                return (await self._cluster.list(kind))[0]
            item = await self._cluster.get(kind, name)
        except RefusedError as error:
            if error.code == 403:
                return None
            raise
        return [] if item is None else [item]

    async def create(self, filled: Filled, key: RequestKey | None = None) -> StoredJob:
        """Prepare and store a job, which is applied soon; return the job of an earlier request with the same key.

        Raises:
            Failure: The job is refused (see `prepare`), the project or the caller has too many jobs, or the key was
                used with another body.
        """
        if key and (earlier := await self._earlier(key)):
            return earlier
        await self._room.check(filled.project.name, filled.caller.key)
        job = None
        while job is None:
            prepared = await self.prepare(filled, dry_run=False)
            new = replace(prepared.job, request_key=key.key, request_digest=key.digest) if key else prepared.job
            try:
                job = await self._storing.add(
                    Owner(filled.project.name, filled.caller.key),
                    NewJob(new, filled.caller.name, filled.project.own_limits),
                )
            except SameNameError:  # with 100,000 jobs of a definition, this happens to one of 170 new jobs
                if key and (earlier := await self._earlier(key)):
                    return earlier
            except QueueFullError as error:
                raise Failure("quota", str(error)) from None
        self._room.add(filled.project.name, job.owner)
        self._follower.created(job.release, job.namespace)
        return job

    async def _earlier(self, key: RequestKey) -> StoredJob | None:
        """Return the job of an earlier request with the same key. Raises Failure if that had another body."""
        job = await asyncio.to_thread(self._store.job_of_request, key.key)
        if job is not None and job.request_digest != key.digest:
            raise Failure("idempotency-mismatch", "the key was used with another body")
        return job

    async def want(self, release: str, goal: str, caller: Caller) -> StoredJob:
        """Set the goal of a job (see `Store.want`), and return the job. Raises Failure if the job does not exist."""
        changed = await asyncio.to_thread(self._store.want, release, goal, caller.name)
        if changed is None:
            raise Failure("not-found", f"job {release!r} not found")
        self._follower.created(release, changed.namespace)
        return changed
