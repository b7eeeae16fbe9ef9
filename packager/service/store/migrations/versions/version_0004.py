"""The title of a job, and the line of its log that explains its failure. Tests: service/store/test_migration.py."""

from alembic import op
from sqlalchemy import Column

from packager.service.store.models import Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("jobs", Column("title", Text))
    op.add_column("jobs", Column("log_line", Text))
