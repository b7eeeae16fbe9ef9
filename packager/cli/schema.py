"""`mlpack schema`: prints the JSON Schema of specs, for editors. Tests: cli/test_cli.py."""

from __future__ import annotations

from packager.cli.console import emit_json


def schema() -> None:
    """Print the JSON Schema of specs."""
    from packager.modelspec.catalog import spec_schema

    emit_json(spec_schema(), is_bounded=False)
