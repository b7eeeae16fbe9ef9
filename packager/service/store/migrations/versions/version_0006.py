"""The sessions of people who sign in with an issuer."""

from alembic import op
from sqlalchemy import Column, LargeBinary

from packager.service.store.columns import Text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "sessions",
        Column("id", Text, primary_key=True),
        Column("content", LargeBinary, nullable=False),
        Column("ends", Text, nullable=False),
        sqlite_strict=True,
    )
