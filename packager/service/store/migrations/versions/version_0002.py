"""The schema since mlpack 0.3.0, from the one of 0.2.0. Tests: service/store/test_migration.py."""

import json

from alembic import op
from sqlalchemy import Column, text

from packager.service.store.models import Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns, fill in the projects of definitions, retire those over packages, and drop what is not kept."""
    for table in ("requests", "sessions", "meta"):
        op.drop_table(table)
    for name in ("request_key", "request_digest", "title", "log_line"):
        op.add_column("jobs", Column(name, Text))
    op.create_index("jobs_by_request", "jobs", ["request_key"], unique=True)
    op.add_column("definitions", Column("project", Text))
    op.create_index("definitions_by_project", "definitions", ["project", "name"])
    connection = op.get_bind()
    change = text("UPDATE definitions SET project = :project WHERE name = :name AND revision = :number")
    for name, number, body in connection.execute(text("SELECT name, revision, body FROM definitions")).all():
        connection.execute(change, {"name": name, "number": number, "project": json.loads(body).get("project")})
    false = "0" if connection.dialect.name == "sqlite" else "false"
    connection.execute(text(f"UPDATE definitions SET is_current = {false} WHERE template LIKE 'package:%'"))  # noqa: S608
