"""The tables of the database after the newest migration.

Revisions of templates and definitions are never changed, and a job keeps its applied manifests, so a changed template
never changes a running job. The rendered package of a definition is also in `templates`, under a name with its digest,
and is never current. Times are RFC 3339 in UTC with microseconds, so they sort as text.

Tests: service/store/test_migration.py.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
)

from packager.service.store.columns import Flag, Number, Text

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_strict=True,
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("expires", Text),
    Column("last_used", Text),
    Column("project", Text),  # NULL for all projects
    sqlite_strict=True,
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),  # the identity, encrypted
    Column("ends", Text, nullable=False),
    Column(
        "owner", Text, nullable=False, server_default=""
    ),  # a digest of the token's id, or of the issuer and the subject
    Index("sessions_by_owner", "owner", "ends"),
    sqlite_strict=True,
)

templates = Table(
    "templates",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("body", Text, nullable=False),
    Column("is_current", Flag, nullable=False),
    Column("created", Text, nullable=False),
    Column("author", Text, nullable=False),
    sqlite_strict=True,
)

definitions = Table(
    "definitions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("template", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("is_current", Flag, nullable=False),
    Column("created", Text, nullable=False),
    Column("author", Text, nullable=False),
    Index("definitions_by_template", "template"),
    sqlite_strict=True,
)

jobs = Table(
    "jobs",
    metadata,
    Column("release", Text, primary_key=True),
    Column("definition", Text, nullable=False),
    Column("definition_revision", Integer, nullable=False),
    Column("template", Text, nullable=False),
    Column("template_revision", Integer, nullable=False),
    Column("application", Text, nullable=False),
    Column("creator", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("filled", Text, nullable=False),  # headers masked
    Column("secrets", LargeBinary, nullable=False),  # the headers, encrypted
    Column("manifests", Text, nullable=False),
    Column("goal", Text, nullable=False),  # run, cancel, delete, delete-storage
    Column("applied", Flag, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("message", Text),
    Column("hint", Text),
    Column("pods", Text, nullable=False),
    Column("findings", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("started", Text),
    Column("ended", Text),
    Column("project", Text, nullable=False, server_default="default"),
    Column("gpus", Integer, nullable=False, server_default="0"),
    Column("attempts", Integer),  # NULL before the first one
    Column("owner", Text, nullable=False, server_default=""),  # the key of the owner; the creator is a name
    Column("requester", Text, nullable=False, server_default=""),  # the key of the caller who filled in the values
    Column("request_key", Text),  # a digest of the idempotency key with its caller and path; NULL without one
    Column("request_digest", Text),
    Column("title", Text),  # of the run, as its owner calls it; empty for the description in the values
    Column("log_line", Text),  # of a failed job: the line of its log that explains the failure
    ForeignKeyConstraint(["definition", "definition_revision"], ["definitions.name", "definitions.revision"]),
    ForeignKeyConstraint(["template", "template_revision"], ["templates.name", "templates.revision"]),
    Index("jobs_by_creation", "created", "release"),
    Index("jobs_by_goal", "goal"),
    Index("jobs_by_status", "status", "created", "release"),
    Index("jobs_by_project", "project", "created", "release"),
    Index("jobs_by_definition", "definition", "created", "release"),
    Index("jobs_by_creator", "creator", "created", "release"),
    Index("jobs_by_application", "application", "created", "release"),
    Index("jobs_by_request", "request_key", unique=True),
    sqlite_strict=True,
)

events = Table(
    "job_events",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("message", Text),
    Column("actor", Text),
    Column("time", Text, nullable=False),
    UniqueConstraint("release", "sequence"),
    sqlite_autoincrement=True,
    sqlite_strict=True,
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("release", Text, nullable=False),  # the job, which may have been deleted
    Column("endpoint", Integer, nullable=False),  # the index in the filled values
    Column("sequence", Integer, nullable=False),  # the sequence of the event
    Column("status", Text, nullable=False),  # the reported status of the job
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("secrets", LargeBinary, nullable=False),  # the headers of the job, encrypted
    Column("state", Text, nullable=False),  # waiting, delivered, given-up, gone
    Column("attempts", Integer, nullable=False),
    Column("code", Integer),
    Column("error", Text),
    Column("created", Text, nullable=False),
    Column("last_try", Text),
    Column("next_try", Text),
    Column("project", Text, nullable=False, server_default="default"),  # the project of the job
    Index("deliveries_by_place", "release", "endpoint", "sequence"),
    Index("deliveries_by_time", "state", "next_try"),
    sqlite_strict=True,
)

logs = Table(
    "logs",
    metadata,
    Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), primary_key=True),
    Column("pod", Text, primary_key=True),
    Column("container", Text, primary_key=True),
    Column("instance", Text, primary_key=True),  # current, or previous: the run before the last restart
    Column("place", Integer, nullable=False),  # the index of the container in its pod; negative for init containers
    Column("size", Integer, nullable=False),  # the size of the text
    Column("content", LargeBinary, nullable=False),  # the text, compressed; each line begins with its time
    Column("time", Text, nullable=False),
    Index("logs_by_time", "time"),
    sqlite_strict=True,
)

metrics = Table(
    "metrics",
    metadata,
    Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), primary_key=True),
    Column("body", Text, nullable=False),  # the curves, and the position in each log
    sqlite_strict=True,
)
