"""Creates jobs from filled values: checks, renders, applies the policy. Tests: service/api/test_jobs.py."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.problems import similar
from packager.base.values import Value, replace
from packager.kubernetes.manifest import mapping
from packager.service import allow
from packager.service.access import permissions
from packager.service.callbacks import endpoints
from packager.service.complaints import Complaint, counted
from packager.service.failures import Failure
from packager.service.jobs import records
from packager.service.registry import definitions, policy, template_values
from packager.service.registry.catalog import read_definition
from packager.service.registry.gpus import count_gpus
from packager.service.registry.packages.content import ENV
from packager.service.registry.packages.filling import SECRETS
from packager.service.store.rows import LONGEST_TITLE, StoredJob
from packager.workloads import kueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.access.projects import Project
    from packager.service.access.tokens import Caller
    from packager.service.callbacks.addresses import Allowed
    from packager.service.registry.catalog import Catalog, ObjectSource
    from packager.service.registry.definitions import Definition
    from packager.service.registry.gpus import Gpus
    from packager.service.registry.policy import Site
    from packager.service.sealing import Sealer
    from packager.service.store.rows import StoredDefinition

_SECONDS = 0.02
"""The seconds after which a batch returns its finished jobs; the others are left for the next batch."""


class Filled(Value, frozen=True):
    """The request for a job.

    Attributes:
        values: The filled values.
        caller: The caller who requests the job.
        project: The project of the job, in which the caller may create jobs.
        revisions: The revisions of the definition and the template; None for the current ones.
        owner: The key of the creator, if it is known; otherwise, it follows from the name of the creator.
        sealed: The keys below `env` whose values come from sealed secrets, and must be secret in this job, too.
    """

    values: Mapping[str, Json]
    caller: Caller
    project: Project
    revisions: tuple[int, int] | None = None
    owner: str | None = None
    sealed: frozenset[str] = frozenset()


class Prepared(Value, frozen=True):
    """A job that can be stored.

    Attributes:
        job: The job.
        objects: The objects to apply, with secrets.
        warnings: Messages about things that the job needs and this cluster lacks.
    """

    job: StoredJob
    objects: tuple[Object, ...]
    warnings: tuple[str, ...] = ()


class Preparation:
    """Creates the jobs of a server."""

    def __init__(self, catalog: Catalog, sealer: Sealer, allowed: Allowed) -> None:
        self._catalog = catalog
        self._sealer = sealer
        self._allowed = allowed

    def jobs(self, requests: Sequence[Filled]) -> list[Prepared | Exception]:
        """Return the job or the error for the first requests of a batch, at least one.

        Definitions and templates are read from the database once for the whole batch.
        """
        read = _Read(self._catalog)
        end = time.monotonic() + _SECONDS
        outcomes: list[Prepared | Exception] = []
        for request in requests:
            try:
                outcomes.append(self._job(request, read))
            except Exception as error:  # noqa: BLE001 - the caller of the batch raises it
                outcomes.append(error)
            if time.monotonic() > end:
                break
        return outcomes

    def _job(self, request: Filled, read: _Read) -> Prepared:
        filled, caller, project = request.values, request.caller, request.project
        name = filled.get("taskDef")
        if not isinstance(name, str):
            complaint = Complaint("/taskDef", "is missing: name of the task definition")
            raise Failure("invalid-values", "the task definition is missing", [complaint])
        registered = read.definition(name, request.revisions[0] if request.revisions else None)
        if registered is None or permissions.definition_project(registered) not in (None, project.name):
            complaint = Complaint("/taskDef", f"definition {name!r} not found", similar(name, read.names(project.name)))
            raise Failure("invalid-values", f"definition {name!r} not found", [complaint])
        definition = read_definition(registered)
        creator = str(filled.get("creator") or caller.name)
        complaints = definitions.value_complaints(definition, filled) or endpoints.complaints(filled, self._allowed)
        complaints += [
            Complaint(f"/{ENV}/{key}", "was filled in as a secret, and the definition no longer keeps it secret")
            for key in sorted(request.sealed - definition.secret_keys)
        ]
        is_own = creator == caller.name or request.owner == caller.key  # the owner may have had another name
        if not is_own and not caller.acts_for_others(project.name):
            complaints.append(Complaint("/creator", f"expected {caller.name!r}: only developers act for others"))
        if complaints:
            raise Failure("invalid-values", f"{counted(complaints)} in the filled values", complaints)
        source = read.source(registered, request.revisions[1] if request.revisions else None)
        application = str(filled.get("name") or definition.body.application or "")
        release = template_values.release_name(name, application, definition.longest_release)
        site = self._catalog.site(project.name)
        made = definitions.Request(filled, creator, release)
        accepted, complaints = definitions.objects(definition, source.content, made, self._catalog.renderer, site)
        if complaints:
            kind = "package" if definition.origin else "template"
            raise Failure("policy", f"the {kind} and the values make objects that are refused", complaints)
        gpus = count_gpus(accepted.objects, allow.resources(project.allowed))
        _refuse_too_many(gpus, project)
        if project.queue:
            kueue.put(accepted.workload, project.queue)
        objects = self._with_secrets(accepted.objects, release, definition, filled, site)
        values = template_values.masked(filled, definition.secret_keys)
        job = StoredJob(
            release=release,
            definition=name,
            definition_revision=registered.revision,
            template=source.name,
            template_revision=source.revision,
            application=application,
            creator=creator,
            owner=request.owner or permissions.owner_of_job(caller, creator),
            requester=caller.key,
            project=project.name,
            namespace=project.namespace,
            kind=accepted.workload["kind"],
            filled=jsonio.compact(values),
            secrets=self._sealer.seal(records.secrets(filled, definition.secret_keys), release),
            manifests=jsonio.compact(records.stored(objects, release)),
            gpus=gpus.count,
            title=str(values.get("description") or "")[:LONGEST_TITLE],
        )
        if project.queue:
            job = replace(job, status="queued", reason="Queued", message=f"waits for the queue {project.queue!r}")
        return Prepared(job, tuple(objects))

    @staticmethod
    def _with_secrets(
        objects: Sequence[Object], release: str, definition: Definition, filled: Mapping[str, Json], site: Site
    ) -> list[Object]:
        """Return the owner of all Secrets, then the Secrets that the service creates, and then the objects."""
        contents: dict[str, dict[str, str]] = {}
        endpoint_headers = records.endpoint_secret(filled)
        if endpoint_headers is not None and not definition.origin:
            contents["endpoints"] = {records.ENDPOINTS: endpoint_headers}
        if own := mapping(records.secrets(filled, definition.secret_keys).get(ENV)):
            contents[SECRETS] = records.secret_texts(own)
        label = str(mapping(objects[-1]["metadata"]["labels"]).get(policy.APPLICATION) or "")
        secrets = [policy.secret(release, role, texts, label, site) for role, texts in contents.items()]
        has_secrets = bool(secrets) or any(item["kind"] == "Secret" for item in objects)
        owner = [policy.secrets_owner(release, label, site)] if has_secrets else []
        return [*owner, *secrets, *objects]


def _refuse_too_many(gpus: Gpus, project: Project) -> None:
    """Raise Failure if a job of a project with max_gpus uses more GPUs, or devices that cannot be counted."""
    limit = project.own_limits.gpus
    if limit is None:
        return
    own = f"max_gpus of the project {project.name!r} is {limit}"
    details = [f"the job takes {gpus.count} GPUs: {own}"] if gpus.count > limit else []
    if gpus.uncounted:
        details.append(f"it cannot be counted how many GPUs {', '.join(gpus.uncounted)} are: {own}")
    if details:
        raise Failure("policy", details[0], [Complaint("", detail) for detail in details])


class _Read:
    """A cache of definitions and sources for one batch, all of whose requests came before the first read."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._definitions: dict[tuple[str, int | None], StoredDefinition | None] = {}
        self._sources: dict[tuple[str, int | None], ObjectSource] = {}
        self._all: list[StoredDefinition] | None = None

    def definition(self, name: str, revision: int | None) -> StoredDefinition | None:
        """Return a revision of a definition, the current one for None; None if it does not exist."""
        key = (name, revision)
        if key not in self._definitions:
            self._definitions[key] = self._catalog.revisions.definition(name, revision)
        return self._definitions[key]

    def names(self, project: str) -> list[str]:
        """Return the names of the definitions that jobs of a project can use."""
        if self._all is None:
            self._all = self._catalog.revisions.definitions()
        return [item.name for item in self._all if permissions.definition_project(item) in (None, project)]

    def source(self, definition: StoredDefinition, revision: int | None) -> ObjectSource:
        """Return the template or the package from which a definition's jobs are rendered. Raises Failure."""
        key = (definition.template, revision)
        if key not in self._sources:
            self._sources[key] = self._catalog.source(definition, revision)
        return self._sources[key]
