"""Jobs have the number of starts of their workload."""

from alembic import op
from sqlalchemy import Column, Integer

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column; for existing jobs, the number is unknown until the next change in the cluster."""
    op.add_column("jobs", Column("attempts", Integer))
