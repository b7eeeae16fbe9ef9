"""Sessions say whose they are, so that no one has any number of them."""

from alembic import op
from sqlalchemy import Column

from packager.service.store.columns import Text

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; the sessions that there are belong to no one, and end within twelve hours."""
    op.add_column("sessions", Column("owner", Text, nullable=False, server_default=""))
    op.create_index("sessions_by_owner", "sessions", ["owner", "ends"])
