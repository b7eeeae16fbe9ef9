"""The first schema. Tests: service/store/test_migration.py."""

from alembic import op
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

from packager.service.store.models import Flag, Number, Text

revision = "0001"
down_revision = None

metadata = MetaData()

Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_strict=True,
)

Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("expires", Text),
    Column("last_used", Text),
    Column("project", Text),
    sqlite_strict=True,
)

Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("ends", Text, nullable=False),
    Column("owner", Text, nullable=False, server_default=""),
    Index("sessions_by_owner", "owner", "ends"),
    sqlite_strict=True,
)

Table(
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

Table(
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

Table(
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
    Column("filled", Text, nullable=False),
    Column("secrets", LargeBinary, nullable=False),
    Column("manifests", Text, nullable=False),
    Column("goal", Text, nullable=False),
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
    Column("attempts", Integer),
    Column("owner", Text, nullable=False, server_default=""),
    Column("requester", Text, nullable=False, server_default=""),
    ForeignKeyConstraint(["definition", "definition_revision"], ["definitions.name", "definitions.revision"]),
    ForeignKeyConstraint(["template", "template_revision"], ["templates.name", "templates.revision"]),
    Index("jobs_by_creation", "created", "release"),
    Index("jobs_by_goal", "goal"),
    Index("jobs_by_status", "status", "created", "release"),
    Index("jobs_by_project", "project", "created", "release"),
    Index("jobs_by_definition", "definition", "created", "release"),
    Index("jobs_by_creator", "creator", "created", "release"),
    Index("jobs_by_application", "application", "created", "release"),
    sqlite_strict=True,
)

Table(
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

Table(
    "requests",
    metadata,
    Column("caller", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("status", Integer),
    Column("body", Text),
    Column("location", Text),
    Column("created", Text, nullable=False),
    Column("replica", Integer, nullable=False, server_default="0"),
    sqlite_strict=True,
)

Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("release", Text, nullable=False),
    Column("endpoint", Integer, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("secrets", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("code", Integer),
    Column("error", Text),
    Column("created", Text, nullable=False),
    Column("last_try", Text),
    Column("next_try", Text),
    Column("project", Text, nullable=False, server_default="default"),
    Index("deliveries_by_place", "release", "endpoint", "sequence"),
    Index("deliveries_by_time", "state", "next_try"),
    sqlite_strict=True,
)

Table(
    "logs",
    metadata,
    Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), primary_key=True),
    Column("pod", Text, primary_key=True),
    Column("container", Text, primary_key=True),
    Column("instance", Text, primary_key=True),
    Column("place", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("time", Text, nullable=False),
    Index("logs_by_time", "time"),
    sqlite_strict=True,
)

Table(
    "metrics",
    metadata,
    Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), primary_key=True),
    Column("body", Text, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """Create all tables."""
    metadata.create_all(op.get_bind())
