"""Names the environment variables of a server: what is secret, and so not in its configuration."""

from __future__ import annotations

DATABASE = "MLPACK_DATABASE"
"""The database, with precedence over the configuration's."""

SECRET_KEY = "MLPACK_SECRET_KEY"  # noqa: S105 - a name
"""The key to the secrets in the database: 32 bytes in base64."""
