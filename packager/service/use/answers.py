"""The bodies of answers of the API, as types that make the OpenAPI document. Tests: service/use/test_jobs.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from packager.base.values import Fields, Meta
from packager.kubernetes.objects import Object
from packager.service.access import permissions
from packager.service.registry.bodies import NamedDefinition, TemplateBody
from packager.service.store.models import LONGEST_TITLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packager.base.values import FieldsType
    from packager.diagnosis.curves.points import Curve
    from packager.service.access.permissions import Project
    from packager.service.access.tokens import Caller
    from packager.service.store.models import Delivery, StoredJob, StoredToken, Usage
    from packager.service.store.quota import Wait
    from packager.service.store.store import Store


Outcome = Literal["created", "changed", "unchanged"]
"""The effect of a registration."""


class Revision(Fields, frozen=True, kw_only=True):
    """A revision of a template or a definition."""

    name: str
    revision: int


class RegisteredTemplate(TemplateBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registered template; `required_values` has the values that it reads, each with its meaning at its place."""

    revision: int
    created: str
    author: str
    required_values: dict[str, Any] = {}
    warnings: list[str] = []


class RegisteredDefinition(NamedDefinition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registered definition."""

    revision: int
    created: str
    author: str
    warnings: list[str] = []


class TemplateTrial(Fields, frozen=True, kw_only=True):
    """The outcome of registering a template, and its problems with the examples of definitions."""

    outcome: Outcome
    definitions: dict[str, list[str]]


class DefinitionTrial(Fields, frozen=True, kw_only=True):
    """The outcome of registering a definition, and the manifests of its example."""

    outcome: Outcome
    manifests: list[Object]
    warnings: list[str]


class WorkloadName(Fields, frozen=True, kw_only=True):
    """The object that runs a job."""

    kind: str
    namespace: str
    name: str


class Job(Fields, frozen=True, kw_only=True):
    """A job."""

    release: str
    status: str
    reason: str | None
    message: str | None
    hint: str | None
    log_line: str | None  # of a failed job, for callers who may read its log: the line that explains the failure
    title: str
    definition: Revision
    template: Revision
    application: str
    creator: str
    owner: str
    project: str
    gpus: int
    place: int | None  # in the queue of the project; null for a job that does not wait for room in it
    values: Mapping[str, object]
    workload: WorkloadName
    created: str
    started: str | None
    ended: str | None
    attempts: int | None
    pods: list[Object]
    findings: list[Object]


class JobChanges(Fields, frozen=True, kw_only=True):
    """The changes of a job; an empty title stands for the description in its values."""

    title: Annotated[str, Meta(max_length=LONGEST_TITLE, title="a text (at most 200)")]


class JobPreview(Fields, frozen=True, kw_only=True):
    """The manifests that a job would create."""

    release: str
    manifests: list[Object]
    warnings: list[str]


class JobEvent(Fields, frozen=True, kw_only=True):
    """A change of a job's status or reason; `id` does not reveal the number of events."""

    id: str
    release: str
    sequence: int
    status: str
    reason: str | None
    message: str | None
    actor: str | None
    time: str


class Callback(Fields, frozen=True, kw_only=True):
    """A callback: the reported status of the job, and the state of its delivery."""

    id: str
    endpoint: int
    url: str
    sequence: int
    status: str
    state: str
    attempts: int
    code: int | None
    error: str | None
    created: str
    last_try: str | None
    next_try: str | None


class Token(Fields, frozen=True, kw_only=True):
    """A token, without its text."""

    id: str
    name: str
    role: str
    project: str | None
    created: str
    expires: str | None
    last_used: str | None


class NewToken(Token, frozen=True, kw_only=True):
    """A new token with its text, which is not shown again."""

    token: str


class WhoAmI(Fields, frozen=True, kw_only=True):
    """The caller; `key` is the `owner` of their jobs."""

    name: str
    key: str
    roles: dict[str, str]
    projects: list[str]


class ProjectLimits(Fields, frozen=True, kw_only=True):
    """A project, and its limits; null for no limit."""

    name: str
    namespace: str
    pod_security: str
    max_running: int | None
    max_running_per_creator: int | None
    max_gpus: int | None
    max_queued: int | None
    queue: str | None


class ProjectUse(Fields, frozen=True, kw_only=True):
    """The current use of a project: jobs by status, and the GPUs of started jobs."""

    project: ProjectLimits
    queued: int
    pending: int
    running: int
    gpus: int


class Health(Fields, frozen=True, kw_only=True):
    """Whether the server works."""

    status: str


Item = TypeVar("Item")


class Page(Fields, Generic[Item], frozen=True, kw_only=True):
    """A list, or a part of one; `next` is the cursor of the following part."""

    items: list[Item]
    next: str | None = None


class Metric(Fields, frozen=True, kw_only=True):
    """A number that a pod has printed at each step: some of the points, and the last one; null for not a number."""

    name: str
    pod: str
    points: list[tuple[int, float | None]]
    lowest: float | None
    highest: float | None


_MADE = {"place", "definition", "template", "values", "workload", "pods", "findings"}
_COPIED = tuple(key for key in Job.__struct_fields__ if key not in _MADE)
"""The keys of an answer that are made from columns of a job, and those that are columns."""


def jobs(caller: Caller, rows: Sequence[StoredJob], store: Store, projects: Mapping[str, Project]) -> list[Job]:
    """Return stored jobs as a caller may see them, with the places and the reasons of those that wait for room now."""
    waits: dict[str, Wait] = {}
    for name in {row.project for row in rows if row.reason == "NoRoom"} & projects.keys():
        waits |= store.waits(name, projects[name].own_limits)
    return [job(caller, row, waits.get(row.release)) for row in rows]


def job(caller: Caller, stored: StoredJob, wait: Wait | None = None) -> Job:
    """Return a stored job as a caller may see it; `wait` is why it waits for room in its project."""
    values = stored.values
    columns = {key: getattr(stored, key) for key in _COPIED} | {
        "message": wait.reason if wait else stored.message,
        "title": stored.title or str(values.get("description") or ""),
        "log_line": stored.log_line if permissions.owns(caller, stored.owner, stored.project) else None,
    }
    return Job(
        **columns,
        place=wait.place if wait else None,
        definition=Revision(name=stored.definition, revision=stored.definition_revision),
        template=Revision(name=stored.template, revision=stored.template_revision),
        values=values,
        workload=WorkloadName(kind=stored.kind, namespace=stored.namespace, name=stored.workload),
        pods=json.loads(stored.pods),
        findings=json.loads(stored.findings),
    )


def copied(kind: type[FieldsType], row: Delivery | StoredToken) -> FieldsType:
    """Return the answer for a row whose columns have the names of its keys."""
    return kind(**{key: getattr(row, key) for key in kind.__struct_fields__})


def metric(curve: Curve) -> Metric:
    """Return the answer for a curve."""
    return Metric(name=curve.name, pod=curve.pod, points=list(curve.drawn), lowest=curve.lowest, highest=curve.highest)


def project(project: Project) -> ProjectLimits:
    """Return the answer for a project of the server."""
    limits = project.limits
    return ProjectLimits(
        name=project.name,
        namespace=project.namespace,
        pod_security=project.level.value,
        max_running=limits.running,
        max_running_per_creator=limits.running_per_creator,
        max_gpus=limits.gpus,
        max_queued=limits.queued,
        queue=project.queue,
    )


def project_use(of: Project, usages: Iterable[Usage]) -> ProjectUse:
    """Return the current use of a project, from `Store.usage`."""
    own = {usage.status: usage for usage in usages if usage.project == of.name}
    counts = {status: own[status].jobs if status in own else 0 for status in ("queued", "pending", "running")}
    gpus = sum(usage.gpus for status, usage in own.items() if status != "queued")
    return ProjectUse(project=project(of), gpus=gpus, **counts)
