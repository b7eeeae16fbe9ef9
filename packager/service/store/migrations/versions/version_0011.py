"""Sessions have an owner, so that their number can be limited."""

from alembic import op
from sqlalchemy import Column

from packager.service.store.columns import Text

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; existing sessions have no owner, and end within twelve hours."""
    op.add_column("sessions", Column("owner", Text, nullable=False, server_default=""))
    op.create_index("sessions_by_owner", "sessions", ["owner", "ends"])
