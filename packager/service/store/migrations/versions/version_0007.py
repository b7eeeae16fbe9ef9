"""Requests with an idempotency key have the replica that processes them."""

from alembic import op
from sqlalchemy import Column, Integer

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; no replica has the number of existing requests."""
    op.add_column("requests", Column("replica", Integer, nullable=False, server_default="0"))
