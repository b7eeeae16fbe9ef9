"""The project of a definition as a column; no stored sessions. Tests: service/store/test_migration.py."""

import json

from alembic import op
from sqlalchemy import Column, text

from packager.service.store.models import Text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column, fill it from the bodies, retire definitions over packages, and drop the sessions."""
    op.add_column("definitions", Column("project", Text))
    op.create_index("definitions_by_project", "definitions", ["project", "name"])
    connection = op.get_bind()
    for name, number, body in connection.execute(text("SELECT name, revision, body FROM definitions")).all():
        values = {"name": name, "number": number, "project": json.loads(body).get("project")}
        connection.execute(
            text("UPDATE definitions SET project = :project WHERE name = :name AND revision = :number"), values
        )
    false = "0" if connection.dialect.name == "sqlite" else "false"
    connection.execute(text(f"UPDATE definitions SET is_current = {false} WHERE template LIKE 'package:%'"))  # noqa: S608
    op.drop_table("sessions")
