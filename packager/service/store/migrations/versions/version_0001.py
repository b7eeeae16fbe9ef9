"""The first schema."""

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

from packager.service.store.columns import Flag, Number, Text

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
    ForeignKeyConstraint(["definition", "definition_revision"], ["definitions.name", "definitions.revision"]),
    ForeignKeyConstraint(["template", "template_revision"], ["templates.name", "templates.revision"]),
    Index("jobs_by_creation", "created", "release"),
    Index("jobs_by_status", "status", "created"),
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
    Column("status", Integer),  # none while the first request is at work
    Column("body", Text),
    Column("location", Text),
    Column("created", Text, nullable=False),
    sqlite_strict=True,
)


def upgrade() -> None:
    """Create all tables."""
    metadata.create_all(op.get_bind())
