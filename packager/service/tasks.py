"""Creates jobs from filled values, and changes what becomes of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, UnreachableError
from packager.base.values import Value
from packager.kubernetes.manifest import mapping
from packager.service import definitions, permissions, policy, queues, records, values
from packager.service.callbacks import endpoints
from packager.service.catalog import read_definition
from packager.service.complaints import Complaint
from packager.service.failures import Failure
from packager.service.kube import RefusedError
from packager.service.packages.content import ENV
from packager.service.packages.filling import SECRETS
from packager.service.store.store import FINAL, QueueFullError, as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.callbacks.addresses import Allowed
    from packager.service.catalog import Catalog
    from packager.service.definitions import Definition
    from packager.service.follower import Follower
    from packager.service.kube import Cluster
    from packager.service.policy import Accepted
    from packager.service.projects import Project
    from packager.service.sealing import Sealer
    from packager.service.store.store import Row
    from packager.service.tokens import Caller


class Prepared(Value, frozen=True):
    """A job that can be stored.

    Attributes:
        row: The job.
        objects: What is applied, with secrets.
        warnings: What this cluster lacks.
    """

    row: Row
    objects: tuple[Object, ...]
    warnings: tuple[str, ...] = ()


class Tasks:
    """The jobs of a server."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it connects
        self,
        catalog: Catalog,
        cluster: Cluster,
        follower: Follower,
        sealer: Sealer,
        projects: Mapping[str, Project],
        allowed: Allowed,
    ) -> None:
        self._catalog = catalog
        self._store = catalog.store
        self._cluster = cluster
        self._follower = follower
        self._sealer = sealer
        self._projects = projects
        self._allowed = allowed

    async def prepare(
        self,
        filled: Mapping[str, Any],
        caller: Caller,
        project: Project,
        *,
        dry_run: bool,
        revisions: tuple[int, int] | None = None,
    ) -> Prepared:
        """Check filled values, here and with a dry run on the cluster, and return the job.

        Args:
            filled: What the user has filled in.
            caller: Who.
            project: Where the job belongs; the caller may create jobs there.
            dry_run: Whether what this cluster lacks is a warning, not a refusal.
            revisions: Those of definition and template, to be used instead of the current ones.

        Raises:
            Failure: The values, the template, the policy or the cluster are against it, or the cluster is away.
        """
        prepared = await asyncio.to_thread(self._prepared, filled, caller, project, revisions)
        try:
            warnings = await self._lacks(prepared.objects)
            if warnings and not dry_run:
                complaints = [Complaint("", warning) for warning in warnings]
                raise Failure("cluster-refused", "the cluster lacks what the job needs", complaints)
            for item in prepared.objects:
                await self._cluster.apply(item, project.namespace, dry_run=True)
        except RefusedError as error:
            raise Failure("cluster-refused", str(error)) from None
        except UnreachableError as error:
            raise Failure("cluster-unreachable", str(error)) from None
        return Prepared(prepared.row, prepared.objects, tuple(warnings))

    def project(self, name: object, caller: Caller) -> Project:
        """Return the project of a new job, by what was sent as its name. Raises Failure."""
        return permissions.project_of_job(caller, name, self._projects)

    def _prepared(
        self, filled: Mapping[str, Any], caller: Caller, project: Project, revisions: tuple[int, int] | None
    ) -> Prepared:
        name = filled.get("taskDef")
        if not isinstance(name, str):
            complaint = Complaint("/taskDef", "is missing: name of the task definition")
            raise Failure("invalid-values", "the task definition is missing", [complaint])
        row = self._store.definition(name, revisions[0] if revisions else None)
        if row is None or permissions.definition_project(row) not in (None, project.name):
            complaint = Complaint("/taskDef", f"definition {name!r} not found")
            raise Failure("invalid-values", f"definition {name!r} not found", [complaint])
        definition = read_definition(row)
        creator = str(filled.get("creator") or caller.name)
        complaints = definitions.value_complaints(definition, filled) or endpoints.complaints(filled, self._allowed)
        if creator != caller.name and not caller.acts_for_others(project.name):
            complaints.append(Complaint("/creator", f"expected {caller.name!r}: only developers act for others"))
        if complaints:
            raise Failure("invalid-values", f"{len(complaints)} problems in the filled values", complaints)
        source = self._catalog.source(row, revisions[1] if revisions else None)
        application = str(filled.get("name") or definition.body.application or "")
        release = values.release_name(name, application, definition.longest_release)
        request = definitions.Request(filled, creator, release)
        accepted, complaints = definitions.objects(
            definition, source.content, request, self._catalog.renderer, self._catalog.site(project.name)
        )
        if complaints:
            what = "package" if definition.origin else "template"
            raise Failure("policy", f"the {what} and the values make objects that are refused", complaints)
        gpus = policy.gpus(accepted.objects)
        if project.own_limits.gpus is not None and gpus > project.own_limits.gpus:
            detail = f"the job takes {gpus} GPUs: max_gpus of the project {project.name!r} is {project.own_limits.gpus}"
            raise Failure("policy", detail, [Complaint("", detail)])
        if project.queue:
            queues.put(accepted.workload, project.queue)
        objects = self._with_secrets(accepted.objects, release, definition, filled)
        job = {
            "release": release,
            "definition": name,
            "definition_revision": row["revision"],
            "template": source.name,
            "template_revision": source.revision,
            "application": application,
            "creator": creator,
            "project": project.name,
            "namespace": project.namespace,
            "kind": accepted.workload["kind"],
            "filled": as_json(values.masked(filled, definition.secret_keys)),
            "secrets": self._sealer.seal(records.secrets(filled, definition.secret_keys), release),
            "manifests": as_json(records.stored(objects, release)),
            "gpus": gpus,
        }
        if project.queue:
            job |= {"status": "queued", "reason": "Queued", "message": f"waits for the queue {project.queue!r}"}
        return Prepared(job, tuple(objects))

    def _with_secrets(
        self, objects: Sequence[Object], release: str, definition: Definition, filled: Mapping[str, Any]
    ) -> list[Object]:
        """Return objects with the Secrets before them that the service creates."""
        contents: dict[str, dict[str, str]] = {}
        endpoint_headers = records.endpoint_secret(filled)
        if endpoint_headers is not None and not definition.origin:
            contents["endpoints"] = {records.ENDPOINTS: endpoint_headers}
        if own := records.secrets(filled, definition.secret_keys).get(ENV):
            contents[SECRETS] = records.secret_texts(own)
        label = str(mapping(objects[-1]["metadata"]["labels"]).get(policy.APPLICATION) or "")
        site = self._catalog.site(None)
        return [*(policy.secret(release, role, texts, label, site) for role, texts in contents.items()), *objects]

    async def warnings(self, trial: Accepted) -> list[str]:
        """Return what is to be known of a definition's objects: remarks, and what this cluster lacks for them.

        If the cluster does not answer, this says so.
        """
        try:
            return [*trial.remarks, *await self._lacks(trial.objects)]
        except ClusterError as error:
            return [*trial.remarks, f"not checked against the cluster: {error}"]

    async def _lacks(self, objects: Sequence[Object]) -> list[str]:
        """Return which storage classes and nodes that the objects need this cluster does not have."""
        lacks = [
            f"the cluster has no storage class {name!r}: map it in storage_classes of the server"
            for name in policy.storage_classes(objects)
            if await self._unless_hidden("StorageClass", name) == []
        ]
        selectors = policy.node_selectors(objects)
        nodes = await self._unless_hidden("Node") if selectors else None
        for selector in selectors if nodes is not None else ():
            if not any(selector.items() <= mapping(node["metadata"].get("labels")).items() for node in nodes or ()):
                words = ", ".join(f"{key}={value}" for key, value in selector.items())
                lacks.append(f"no node has the labels {words}: map them in node_selectors of the server")
        return lacks

    async def _unless_hidden(self, kind: str, name: str | None = None) -> list[Object] | None:
        """Return the objects of a kind, or the one of a name; None if the server may not see them."""
        try:
            if name is None:
                return (await self._cluster.list(kind))[0]
            item = await self._cluster.get(kind, name)
        except RefusedError as error:
            if error.code == 403:
                return None
            raise
        return [] if item is None else [item]

    async def create(self, prepared: Prepared, caller: Caller, answer: Callable[[Row], Row | None]) -> Row:
        """Store a job, which is applied soon, together with the answer to the request (`Store.add_job`).

        Raises:
            Failure: Too many jobs of the project wait.
        """
        limits = self._projects[prepared.row["project"]].own_limits
        try:
            row = await asyncio.to_thread(self._store.add_job, prepared.row, caller.name, answer, limits)
        except QueueFullError as error:
            raise Failure("quota", str(error)) from None
        self._follower.created(prepared.row["release"])
        return row

    async def filled_values(self, row: Row) -> dict[str, Any]:
        """Return the filled values of a job, with the headers."""
        return await asyncio.to_thread(records.filled_values, row, self._sealer)

    async def job(self, release: str, caller: Caller, role: str = "viewer") -> Row:
        """Return a job in whose project a caller has a role. Raises Failure."""
        row = await asyncio.to_thread(self._store.job, release)
        if row is None:
            raise Failure("not-found", f"job {release!r} not found")
        permissions.check_job(caller, row, role)
        return row

    async def cancel(self, row: Row, caller: Caller) -> Row:
        """Stop a job; its record and its claims stay. Raises Failure."""
        if row["status"] in FINAL:
            raise Failure("conflict", f"the job has ended: it is {row['status']}")
        return await self._want(row, "cancel", caller)

    async def delete(self, row: Row, caller: Caller, *, with_storage: bool) -> Row:
        """Stop a job, and delete its objects and its record; its claims on request. Raises Failure."""
        return await self._want(row, "delete-storage" if with_storage else "delete", caller)

    async def _want(self, row: Row, goal: str, caller: Caller) -> Row:
        permissions.check_owns_job(caller, row, "change jobs of others")
        changed = await asyncio.to_thread(self._store.want, row["release"], goal, caller.name)
        if changed is None:
            raise Failure("not-found", f"job {row['release']!r} not found")
        self._follower.created(row["release"])
        return changed
