"""The outbox of callbacks."""

from alembic import op
from sqlalchemy import Column, Integer, LargeBinary

from packager.service.store.columns import Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "deliveries",
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
        sqlite_strict=True,
    )
    op.create_index("deliveries_by_place", "deliveries", ["release", "endpoint", "sequence"])
    op.create_index("deliveries_by_time", "deliveries", ["state", "next_try"])
