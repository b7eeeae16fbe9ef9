"""The first schema."""

from alembic import op

from packager.service.store.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables; `tests/service/store/test_store.py` holds their names and columns."""
    metadata.create_all(op.get_bind())
