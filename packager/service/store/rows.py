"""The rows of the database, as types with a field for each column that is read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeVar

from packager.base.values import Value, as_dict, from_json, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Executable

    from packager.base.values import Json
    from packager.kubernetes.objects import Object


LONGEST_TITLE = 200
"""The greatest length of the title of a job."""


class StoredToken(Value, frozen=True, kw_only=True):
    """A token: the digest of its text, and the role of its owner in a project, or in all projects for None."""

    id: str
    digest: str
    name: str
    role: str
    created: str
    expires: str | None = None
    last_used: str | None = None
    project: str | None = None


class StoredTemplate(Value, frozen=True, kw_only=True):
    """A revision of a template, or a rendered package; `body` is JSON."""

    name: str
    body: str
    author: str
    revision: int = 1
    is_current: bool = True
    created: str = ""


class StoredDefinition(StoredTemplate, frozen=True, kw_only=True):
    """A revision of a definition over a template, or over a rendered package."""

    template: str


class StoredStatus(Value, frozen=True, kw_only=True):
    """The columns of a job by which the control loop chooses the jobs to check.

    Attributes:
        release: The name of the job.
        project: The project of the job.
        namespace: The namespace of its objects.
        status: One of STATUSES.
        reason: The reason for the status.
        goal: `run`, or one of GOALS.
        applied: Whether its objects were applied.
    """

    release: str
    project: str = "default"
    namespace: str
    status: str = "pending"
    reason: str | None = None
    goal: str = "run"
    applied: bool = False


class _WorkloadMetadata(Value, frozen=True, kw_only=True):
    name: str


class _WorkloadName(Value, frozen=True, kw_only=True):
    metadata: _WorkloadMetadata


class StoredJob(StoredStatus, frozen=True, kw_only=True):
    """A job.

    Attributes:
        owner: The key of the owner; `creator` is a name.
        requester: The key of the caller who filled in the values.
        kind: The kind of the workload.
        filled: The filled values as JSON, with masked secrets.
        secrets: The headers and secrets in the values, encrypted.
        manifests: The objects as JSON, without secrets, the workload last.
        pods: The pods as JSON.
        findings: The findings as JSON.
        attempts: The number of starts of the workload; None before the first one.
        request_key: The `RequestKey.key` of the request that has created it; None without an idempotency key.
        request_digest: The `RequestKey.digest` of that request.
    """

    definition: str
    definition_revision: int
    template: str
    template_revision: int
    application: str
    creator: str
    owner: str = ""
    requester: str = ""
    kind: str
    filled: str
    secrets: bytes
    manifests: str
    gpus: int = 0
    message: str | None = None
    hint: str | None = None
    pods: str = "[]"
    findings: str = "[]"
    created: str = ""
    started: str | None = None
    ended: str | None = None
    attempts: int | None = None
    request_key: str | None = None
    request_digest: str | None = None
    title: str | None = None  # of the run, as its owner calls it; empty for the description in the values
    log_line: str | None = None  # of a failed job: the line of its log that explains the failure

    @property
    def values(self) -> dict[str, Json]:
        """The filled values of the job, with masked secrets."""
        values: dict[str, Json] = json.loads(self.filled)
        return values

    @property
    def pod_names(self) -> set[str]:
        """The names of the pods of the job."""
        return {str(pod["name"]) for pod in json.loads(self.pods)}

    @property
    def objects(self) -> list[Object]:
        """The objects of the job, without secrets, the workload last."""
        objects: list[Object] = json.loads(self.manifests)
        return objects

    @property
    def workload(self) -> str:
        """The name of the workload. Of the manifests, which may contain code, no other value is made."""
        return from_json(self.manifests, list[_WorkloadName])[-1].metadata.name


class NewEvent(Value, frozen=True, kw_only=True):
    """A change of the status or the reason of a job; the first one of a job has the sequence 1.

    The sequence and the time are set when the event is stored.
    """

    release: str
    sequence: int = 0
    status: str
    reason: str | None = None
    message: str | None = None
    actor: str | None = None
    time: str = ""


class StoredEvent(NewEvent, frozen=True, kw_only=True):
    """An event with its id, which grows over all jobs."""

    id: int


class Usage(Value, frozen=True, kw_only=True):
    """The numbers of jobs of a project with a status, and of their GPUs; also by owner, with a name of each."""

    project: str
    status: str
    jobs: int
    gpus: int
    owner: str = ""
    creator: str = ""


class RequestKey(Value, frozen=True):
    """The idempotency key of a request: a digest of the key, its caller and path, and a digest of the body."""

    key: str
    digest: str


class Delivery(Value, frozen=True, kw_only=True):
    """A callback.

    Attributes:
        endpoint: The index of the endpoint in the filled values.
        sequence: The sequence of the event.
        status: The reported status of the job.
        secrets: The headers of the job, encrypted.
        state: `waiting`, `delivered`, `given-up` or `gone`.
        code: The HTTP status of the last answer.
    """

    id: str
    release: str
    project: str
    endpoint: int
    sequence: int
    status: str
    url: str
    host: str
    body: str
    secrets: bytes
    state: str = "waiting"
    attempts: int = 0
    code: int | None = None
    error: str | None = None
    created: str
    last_try: str | None = None
    next_try: str | None


class StoredLog(Value, frozen=True, kw_only=True):
    """The kept log of a container.

    Attributes:
        instance: `current`, or `previous`: the run before the last restart.
        place: The index of the container in its pod; negative for init containers.
        size: The bytes of the text.
        content: The text, compressed, each line with its time; empty in lists of logs.
        time: The time at which the log was read.
    """

    release: str
    pod: str
    container: str
    instance: str
    place: int
    size: int
    content: bytes = b""
    time: str


Row = TypeVar("Row", bound=Value)


def read(connection: Connection, kind: type[Row], statement: Executable, **values: object) -> list[Row]:
    """Return the rows of a statement as values of a type, whose fields are columns of the statement."""
    result = connection.execute(statement, values)
    names = tuple(result.keys())
    # All rows at once: between two of them, other threads would compute.
    return [kind(**dict(zip(names, row, strict=True))) for row in result.all()]


def columns(row: Value) -> dict[str, object]:
    """Return the columns of a row, by name."""
    return as_dict(row)


_NOT_STORABLE = re.compile("[\\0\ud800-\udfff]")


def storable(row: Row, names: Sequence[str]) -> Row:
    """Return a row with U+FFFD for each character in some columns that a database refuses.

    PostgreSQL refuses NUL, and UTF-8 has no surrogates. Messages of the cluster quote programs, and can contain both.

    Args:
        row: The row.
        names: The names of the columns.
    """
    texts = {name: value for name in names if isinstance(value := getattr(row, name), str)}
    return replace(row, **{name: _NOT_STORABLE.sub("\ufffd", text) for name, text in texts.items()})
