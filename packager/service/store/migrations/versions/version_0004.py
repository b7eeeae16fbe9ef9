"""The logs of jobs, which are kept after the deletion of their pods."""

from alembic import op
from sqlalchemy import Column, ForeignKey, Integer, LargeBinary

from packager.service.store.columns import Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "logs",
        Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), primary_key=True),
        Column("pod", Text, primary_key=True),
        Column("container", Text, primary_key=True),
        Column("instance", Text, primary_key=True),
        Column("place", Integer, nullable=False),
        Column("size", Integer, nullable=False),
        Column("content", LargeBinary, nullable=False),
        Column("time", Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("logs_by_time", "logs", ["time"])
