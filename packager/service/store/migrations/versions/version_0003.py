"""Jobs and tokens belong to projects; each filter of the list has an index."""

from alembic import op
from sqlalchemy import Column, Integer

from packager.service.store.columns import Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Put existing jobs into the project `default`; existing tokens are valid in all projects."""
    op.add_column("tokens", Column("project", Text))
    op.add_column("jobs", Column("project", Text, nullable=False, server_default="default"))
    op.add_column("jobs", Column("gpus", Integer, nullable=False, server_default="0"))
    op.drop_index("jobs_by_status", "jobs")
    op.create_index("jobs_by_goal", "jobs", ["goal"])
    for column in ("status", "project", "definition", "creator", "application"):
        op.create_index(f"jobs_by_{column}", "jobs", [column, "created", "release"])
