"""`mlpack schema`: prints the JSON Schema of specs, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cli.console import emit_json

if TYPE_CHECKING:
    import typer


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(schema)


def schema() -> None:
    """Print the JSON Schema of specs."""
    from packager.app.models import spec_schema

    emit_json(spec_schema())
