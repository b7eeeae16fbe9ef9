"""Migrates a database to the newest schema, and refuses a database of a newer mlpack."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from packager.base.errors import ToolError
from packager.service.store.models import metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


_FOLDER = Path(__file__).resolve().parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    return config


@cache
def versions() -> Sequence[str]:
    """Return the versions of the schema, the oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def current(connection: Connection) -> str | None:
    """Return the version of a database's schema; None for an empty database."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(connection: Connection, *, is_allowed: bool = True) -> bool:
    """Migrate the database to the newest schema, and return whether it had another one. Raises ToolError.

    Args:
        connection: The connection of a write transaction.
        is_allowed: Whether a schema of an older mlpack may be migrated; the schema of an empty database always may.
    """
    version = current(connection)
    own_versions = versions()
    if version == own_versions[-1]:
        return False
    if version is not None and version not in own_versions:
        message = f"the database has the schema {version}, which a newer mlpack has written"
        raise ToolError(message, hint="use that mlpack, or a backup of the database")
    if version is not None and not is_allowed:
        message = f"the database has the schema {version} of an older mlpack, whose server may be running"
        raise ToolError(
            message, hint="use that mlpack, or stop the server, and start the new one or `mlpack serve migrate`"
        )
    config = _config()
    config.attributes["connection"] = connection
    if version is None:
        metadata.create_all(connection)
        command.stamp(config, "head")
    else:
        command.upgrade(config, "head")
    return True
