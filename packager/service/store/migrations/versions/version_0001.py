"""The first schema, which the tables of `models` had in mlpack 0.2.0. Tests: service/store/test_migration.py."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: the tables of an empty database are made as they are now; see `migration.upgrade`."""
