"""Names of a server's environment variables, which contain its secrets. Tests: cli/test_serve.py."""

from __future__ import annotations

DATABASE = "MLPACK_DATABASE"
"""The database; it has precedence over the one in the configuration."""

SECRET_KEY = "MLPACK_SECRET_KEY"  # noqa: S105 - a name
"""The key to the secrets in the database: 32 bytes in base64."""
