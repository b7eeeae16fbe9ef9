"""The tables of the database after the newest migration, and their rows, each declared once.

Revisions of templates and definitions are never changed, and a job keeps its applied manifests, so a changed template
never changes a running job. Times are RFC 3339 in UTC with microseconds, so they sort as text.

Tests: service/store/test_migration.py.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
)

from packager.base.values import Value, from_json, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Executable
    from sqlalchemy.schema import SchemaItem

    from packager.base.values import Json
    from packager.kubernetes.objects import Object


Flag = Boolean().with_variant(Integer(), "sqlite")
"""A boolean; 0 or 1 in SQLite, whose STRICT tables have no boolean type."""

Number = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit integer."""

Text = sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql")
"""A text that is compared and sorted by its bytes, as in SQLite."""

metadata = MetaData()

_TYPES: dict[type, Any] = {str: Text, int: Integer, bool: Flag, bytes: LargeBinary}
_DEFAULTS = {"jobs.project": "default", "jobs.gpus": "0", "jobs.owner": "", "jobs.requester": ""}
_DEFAULTS["deliveries.project"] = "default"


def _table(name: str, row: type[Value], keys: tuple[str, ...], *parts: SchemaItem, sequence: str = "") -> Table:
    """Return the table whose rows are values of a type: a column for each field, which is NULL where it may be None."""
    columns: list[Column[Any]] = []
    for key, hint in get_type_hints(row).items():
        kinds = {kind for kind in _TYPES if kind is hint or kind in getattr(hint, "__args__", ())}
        [kind] = kinds
        columns.append(
            Column(
                key,
                Number if key == sequence else _TYPES[kind],
                primary_key=key in keys,
                nullable=kind is not hint,
                autoincrement=key == sequence,
                server_default=_DEFAULTS.get(f"{name}.{key}"),
            )
        )
    options: dict[str, Any] = {"sqlite_autoincrement": True} if sequence else {}
    made: Table = Table(name, metadata, *columns, *parts, sqlite_strict=True, **options)
    return made


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
    """A revision of a template; `body` is JSON."""

    name: str
    body: str
    author: str
    revision: int = 1
    is_current: bool = True
    created: str = ""


class StoredDefinition(StoredTemplate, frozen=True, kw_only=True):
    """A revision of a definition over a template, of a project, or of all projects for None."""

    template: str
    project: str | None = None


class StoredStatus(Value, frozen=True, kw_only=True):
    """The columns of a job by which the control loop chooses the jobs to check."""

    release: str
    project: str = "default"
    namespace: str
    status: str = "pending"  # one of STATUSES
    reason: str | None = None
    goal: str = "run"  # run, or one of GOALS
    applied: bool = False


class _WorkloadMetadata(Value, frozen=True, kw_only=True):
    name: str


class _WorkloadName(Value, frozen=True, kw_only=True):
    metadata: _WorkloadMetadata


class StoredJob(StoredStatus, frozen=True, kw_only=True):
    """A job."""

    definition: str
    definition_revision: int
    template: str
    template_revision: int
    application: str
    creator: str  # a name
    owner: str = ""  # the key of the owner
    requester: str = ""  # the key of the caller who filled in the values
    kind: str  # of the workload
    filled: str  # the values as JSON, with masked secrets
    secrets: bytes  # the headers and secrets in the values, encrypted
    manifests: str  # the objects as JSON, without secrets, the workload last
    gpus: int = 0
    message: str | None = None
    hint: str | None = None
    pods: str = "[]"  # JSON
    findings: str = "[]"  # JSON
    created: str = ""
    started: str | None = None
    ended: str | None = None
    attempts: int | None = None  # the starts of the workload; None before the first one
    request_key: str | None = None  # `RequestKey.key` of the request that has created it; None without one
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


class Delivery(Value, frozen=True, kw_only=True):
    """A callback; its job may have been deleted."""

    id: str
    release: str
    project: str
    endpoint: int  # the index in the filled values
    sequence: int  # of the event
    status: str  # of the job, as it is reported
    url: str
    host: str
    body: str
    secrets: bytes  # the headers of the job, encrypted
    state: str = "waiting"  # waiting, delivered or given-up
    attempts: int = 0
    code: int | None = None  # the HTTP status of the last answer
    error: str | None = None
    created: str
    last_try: str | None = None
    next_try: str | None = None


class StoredLog(Value, frozen=True, kw_only=True):
    """The kept log of a container."""

    release: str
    pod: str
    container: str
    instance: str  # current, or previous: the run before the last restart
    place: int  # the index of the container in its pod; negative for init containers
    size: int  # the bytes of the text
    content: bytes = b""  # the text, compressed, each line with its time; empty in lists of logs
    time: str  # when the log was read


class StoredCurves(Value, frozen=True, kw_only=True):
    """The curves of a job, and the position in each log, as JSON."""

    release: str
    body: str


class Usage(Value, frozen=True, kw_only=True):
    """The numbers of jobs of a project with a status, and of their GPUs."""

    project: str
    status: str
    jobs: int
    gpus: int


class RequestKey(Value, frozen=True):
    """The idempotency key of a request: a digest of the key, its caller and path, and a digest of the body."""

    key: str
    digest: str


_BY_CREATION = ("created", "release")

tokens = _table("tokens", StoredToken, ("id",), UniqueConstraint("digest"))
templates = _table("templates", StoredTemplate, ("name", "revision"))
definitions = _table(
    "definitions",
    StoredDefinition,
    ("name", "revision"),
    Index("definitions_by_template", "template"),
    Index("definitions_by_project", "project", "name"),
)
jobs = _table(
    "jobs",
    StoredJob,
    ("release",),
    ForeignKeyConstraint(["definition", "definition_revision"], ["definitions.name", "definitions.revision"]),
    ForeignKeyConstraint(["template", "template_revision"], ["templates.name", "templates.revision"]),
    Index("jobs_by_creation", *_BY_CREATION),
    Index("jobs_by_goal", "goal"),
    *(Index(f"jobs_by_{key}", key, *_BY_CREATION) for key in ("status", "project", "definition", "creator")),
    Index("jobs_by_application", "application", *_BY_CREATION),
    Index("jobs_by_request", "request_key", unique=True),
)
events = _table(
    "job_events",
    StoredEvent,
    ("id",),
    ForeignKeyConstraint(["release"], ["jobs.release"], ondelete="CASCADE"),
    UniqueConstraint("release", "sequence"),
    sequence="id",
)
deliveries = _table(
    "deliveries",
    Delivery,
    ("id",),
    Index("deliveries_by_place", "release", "endpoint", "sequence"),
    Index("deliveries_by_time", "state", "next_try"),
)
logs = _table(
    "logs",
    StoredLog,
    ("release", "pod", "container", "instance"),
    ForeignKeyConstraint(["release"], ["jobs.release"], ondelete="CASCADE"),
    Index("logs_by_time", "time"),
)
metrics = _table(
    "metrics", StoredCurves, ("release",), ForeignKeyConstraint(["release"], ["jobs.release"], ondelete="CASCADE")
)

Row = TypeVar("Row", bound=Value)


def read(connection: Connection, kind: type[Row], statement: Executable, **values: object) -> list[Row]:
    """Return the rows of a statement as values of a type, whose fields are columns of the statement."""
    result = connection.execute(statement, values)
    names = tuple(result.keys())
    # All rows at once: between two of them, other threads would compute.
    return [kind(**dict(zip(names, row, strict=True))) for row in result.all()]


_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")


def storable(row: Row, names: Sequence[str]) -> Row:
    """Return a row with U+FFFD for each character in some columns that a database refuses.

    PostgreSQL refuses NUL, and UTF-8 has no surrogates. Messages of the cluster quote programs, and can contain both.
    """
    texts = {name: value for name in names if isinstance(value := getattr(row, name), str)}
    return replace(row, **{name: _NOT_STORABLE.sub("\ufffd", text) for name, text in texts.items()})


def as_text(time: datetime) -> str:
    """Return a time in the format of the database and of responses: RFC 3339 in UTC, which sorts as text."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def now() -> str:
    """Return the current time in the format of the database."""
    return as_text(datetime.now(UTC))
