"""The idempotency key of a job instead of the stored answers. Tests: service/store/test_migration.py."""

from alembic import op
from sqlalchemy import Column

from packager.service.store.models import Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Drop the stored answers, and add the columns of the key."""
    op.drop_table("requests")
    op.add_column("jobs", Column("request_key", Text))
    op.add_column("jobs", Column("request_digest", Text))
    op.create_index("jobs_by_request", "jobs", ["request_key"], unique=True)
