"""How often the workload of a job was started."""

from alembic import op
from sqlalchemy import Column, Integer

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column; of the jobs that there are, it is not known until the cluster tells of them again."""
    op.add_column("jobs", Column("attempts", Integer))
