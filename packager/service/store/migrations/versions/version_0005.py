"""The curves of jobs."""

from alembic import op
from sqlalchemy import Column, ForeignKey

from packager.service.store.columns import Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "metrics",
        Column("release", Text, ForeignKey("jobs.release", ondelete="CASCADE"), primary_key=True),
        Column("body", Text, nullable=False),
        sqlite_strict=True,
    )
