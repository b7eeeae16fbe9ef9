"""Creates jobs from filled values: checks, renders, applies the policy; and changes their goals.

Tests: service/api/test_jobs.py.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.errors import UnreachableError
from packager.base.problems import similar
from packager.base.values import Value, replace
from packager.kubernetes.manifest import Manifest
from packager.service.access import permissions
from packager.service.callbacks import endpoints
from packager.service.failures import RETRY_SECONDS, Complaint, Failure, counted, over_limit
from packager.service.jobs import apply
from packager.service.jobs.kube import RefusedError
from packager.service.registry import definitions, policy, template_values
from packager.service.registry.catalog import read_definition, template_text
from packager.service.registry.policy import count_gpus
from packager.service.store.models import LONGEST_TITLE, StoredDefinition, StoredJob, StoredTemplate
from packager.service.store.store import SameNameError
from packager.service.work import Owner
from packager.workloads import kueue, structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.access.permissions import Project
    from packager.service.access.tokens import Caller
    from packager.service.callbacks.endpoints import Receivers
    from packager.service.config import LimitsConfig
    from packager.service.jobs.follower import Follower
    from packager.service.jobs.kube import Cluster
    from packager.service.registry.catalog import Catalog
    from packager.service.registry.policy import Accepted
    from packager.service.sealing import Sealer
    from packager.service.store.models import RequestKey
    from packager.service.work import Work


_FRESH_SECONDS = RETRY_SECONDS[429]
"""The seconds for which the size of a project is read once: until a refused request may be repeated."""


class Filled(Value, frozen=True):
    """The request for a job."""

    values: Mapping[str, Json]
    caller: Caller
    project: Project  # in which the caller may create jobs
    revisions: tuple[int, int] | None = None  # of the definition and the template; None for the current ones
    owner: str | None = None  # the key of the creator, if it is known; else it follows from the name
    sealed: frozenset[str] = frozenset()  # the places of values from sealed secrets, which must be secret here, too


class Prepared(Value, frozen=True):
    """A job that can be stored."""

    job: StoredJob
    objects: tuple[Object, ...]  # with secrets
    warning: str | None = None  # about a cluster that does not answer


class Tasks:
    """The jobs of a server."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it connects
        self,
        catalog: Catalog,
        cluster: Cluster,
        follower: Follower,
        sealer: Sealer,
        projects: Mapping[str, Project],
        allowed: Receivers,
        work: Work,
        limits: LimitsConfig,
    ) -> None:
        self.catalog = catalog
        self.sealer = sealer
        self.work = work
        self.projects = projects
        self._store = catalog.store
        self._allowed = allowed
        self._cluster = cluster
        self._follower = follower
        self._limits = limits
        self._sizes: dict[str, tuple[float, int]] = {}  # of each project, after the time when it was read

    async def check_room(self, project: str, owner: str) -> None:
        """Raise Failure if there is no room for a new job."""
        own, total = await asyncio.to_thread(self._store.count_unfinished, project, owner)
        if own >= self._limits.caller_jobs:
            raise over_limit("caller_jobs", f"{own:,} jobs of the caller in project {project!r} have not ended")
        if total >= self._limits.project_jobs:
            raise over_limit("project_jobs", f"{total:,} jobs of the project {project!r} have not ended")
        await self.check_size(project)

    async def check_size(self, project: str) -> None:
        """Raise Failure if jobs, logs and definitions of a project use too much space."""
        time, size = self._sizes.get(project, (-_FRESH_SECONDS, 0))
        if monotonic() - time >= _FRESH_SECONDS:
            self._sizes[project] = (monotonic(), size)  # one request reads; the others use the old size
            size = await asyncio.to_thread(self._store.size, project)
            self._sizes[project] = (monotonic(), size)
        if size >= self._limits.project_mib << 20:
            detail = f"jobs, logs and definitions of the project {project!r} take {size >> 20:,} MiB"
            raise over_limit("project_mib", f"{detail}: delete some jobs")

    async def prepare(self, filled: Filled, *, dry_run: bool) -> Prepared:
        """Check filled values, also with a dry run on the cluster, and return the job.

        Args:
            filled: The values.
            dry_run: Whether to warn about a cluster that does not answer.

        Raises:
            Failure: The values, the template, the policy or the cluster refuse the job; or, without a dry run, the
                cluster does not answer.
        """
        prepared = await self.work.run(Owner(filled.caller.key), partial(self._made, filled))
        try:
            await apply.try_objects(self._cluster, prepared.objects, filled.project.namespace)
        except RefusedError as error:
            raise Failure("cluster-refused", str(error)) from None
        except UnreachableError as error:
            if not dry_run:
                raise Failure("cluster-unreachable", str(error)) from None
            return replace(prepared, warning=f"not checked against the cluster: {error}")
        return prepared

    def _made(self, request: Filled) -> Prepared:
        """Return the job for filled values. Raises Failure."""
        filled, caller, project = request.values, request.caller, request.project
        name = filled.get("taskDef")
        if not isinstance(name, str):
            complaint = Complaint("/taskDef", "is missing: name of the task definition")
            raise Failure("invalid-values", "the task definition is missing", [complaint])
        revisions = self._store.revisions
        registered = revisions.find(StoredDefinition, name, request.revisions[0] if request.revisions else None)
        if registered is None or registered.project not in (None, project.name):
            complaint = Complaint(
                "/taskDef", f"definition {name!r} not found", similar(name, revisions.names(project.name))
            )
            raise Failure("invalid-values", f"definition {name!r} not found", [complaint])
        definition = read_definition(registered)
        creator = str(filled.get("creator") or caller.name)
        complaints = definitions.value_complaints(definition, filled) or endpoints.complaints(filled, self._allowed)
        complaints += [
            Complaint(
                f"/{place.replace('.', '/')}", "was filled in as a secret, and is not one in the definition any more"
            )
            for place in sorted(request.sealed - {*map(".".join, definition.secret_places)})
        ]
        is_own = creator == caller.name or request.owner == caller.key  # the owner may have had another name
        if not is_own and not caller.acts_for_others(project.name):
            complaints.append(Complaint("/creator", f"expected {caller.name!r}: only developers act for others"))
        if complaints:
            raise Failure("invalid-values", f"{counted(complaints)} in the filled values", complaints)
        number = request.revisions[1] if request.revisions else None
        template = revisions.get(StoredTemplate, registered.template, number)
        text = template_text(template)
        application = str(filled.get("name") or definition.body.application or "")
        release = template_values.release_name(name, application, text)
        site = self.catalog.site(project.name)
        made = definitions.Request(filled, creator, release)
        accepted = definitions.objects(definition, text, made, self.catalog.renderer, site)
        if accepted.complaints:
            raise Failure("policy", "the template and the values make objects that are refused", accepted.complaints)
        if details := list(self.excesses(accepted.objects, project)):
            raise Failure("policy", details[0], [Complaint("", detail) for detail in details])
        if project.queue:
            kueue.put(accepted.workload, project.queue)
        sealed = apply.secrets(filled, definition.secret_places)
        contents = apply.secret_contents(filled, sealed) if sealed else {}
        objects = policy.with_secrets(accepted.objects, release, contents, site)
        stored = policy.with_secrets(accepted.objects, release, {key: {} for key in contents}, site)
        values = template_values.masked(filled, definition.secret_places) if sealed else filled
        job = StoredJob(
            release=release,
            definition=name,
            definition_revision=registered.revision,
            template=template.name,
            template_revision=template.revision,
            application=application,
            creator=creator,
            owner=request.owner or permissions.owner_of_job(caller, creator),
            requester=caller.key,
            project=project.name,
            namespace=project.namespace,
            kind=accepted.workload["kind"],
            filled=jsonio.compact(values),
            secrets=self.sealer.seal(sealed, release),
            manifests=jsonio.compact(stored),
            gpus=count_gpus(accepted.objects, policy.resources(project.allowed)).count,
            title=str(values.get("description") or "")[:LONGEST_TITLE],
        )
        if project.queue:
            job = replace(job, status="queued", reason="Queued", message=f"waits for the queue {project.queue!r}")
        return Prepared(job, tuple(objects))

    def excesses(self, objects: Sequence[Object], project: Project) -> Iterator[str]:
        """Yield each limit of the server or of a project that the objects of a job exceed."""
        pods = sum(part.count for item in objects for part in structures.pods(Manifest(item)))
        if pods > self._limits.job_pods:
            yield f"the job starts {pods:,} pods, and limits.job_pods of the server is {self._limits.job_pods:,}"
        limit = project.own_limits.gpus
        if limit is not None:
            gpus, own = (
                count_gpus(objects, policy.resources(project.allowed)),
                f"max_gpus of the project {project.name!r} is {limit}",
            )
            if gpus.count > limit:
                yield f"the job takes {gpus.count} GPUs: {own}"
            if gpus.uncounted:
                yield f"it cannot be counted how many GPUs {', '.join(gpus.uncounted)} are: {own}"

    def warnings(self, row: StoredDefinition, trial: Accepted) -> list[str]:
        """Return the warnings about a definition: values in code, and projects that refuse its example."""
        one = self.projects.get(row.project or "")
        places = [one] if one else list(self.projects.values())
        refused = [
            f"jobs of {item.name} are refused: {text}" for item in places for text in self.excesses(trial.objects, item)
        ]
        return [*trial.remarks, *refused, *(self.catalog.refused_in(row) if len(places) > 1 else ())]

    async def create(self, filled: Filled, key: RequestKey | None = None) -> StoredJob:
        """Prepare and store a job, which is applied soon; return the job of an earlier request with the same key.

        Raises:
            Failure: The job is refused (see `prepare`), the project or the caller has too many jobs, or the key was
                used with another body.
        """
        if key and (earlier := await self._earlier(key)):
            return earlier
        await self.check_room(filled.project.name, filled.caller.key)
        job = None
        while job is None:
            prepared = await self.prepare(filled, dry_run=False)
            new = replace(prepared.job, request_key=key.key, request_digest=key.digest) if key else prepared.job
            try:
                limits = filled.project.own_limits
                job = await asyncio.to_thread(self._store.add_job, new, filled.caller.name, limits)
            except SameNameError:  # with 100,000 jobs of a definition, this happens to one of 170 new jobs
                if key and (earlier := await self._earlier(key)):
                    return earlier
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
