"""Callbacks have the project whose secret signs them, also after the deletion of their job."""

from alembic import op
from sqlalchemy import Column

from packager.service.store.columns import Text

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column, with the project of each callback's job."""
    op.add_column("deliveries", Column("project", Text, nullable=False, server_default="default"))
    op.execute(
        "UPDATE deliveries SET project = (SELECT jobs.project FROM jobs WHERE jobs.release = deliveries.release)"
        " WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.release = deliveries.release)"
    )
