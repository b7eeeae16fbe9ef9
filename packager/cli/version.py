"""`mlpack version`: prints the version. Tests: cli/test_cli.py."""

from __future__ import annotations

from typing import Annotated

import typer

from packager import __version__
from packager.cli.console import Machine, emit, emit_json


def version(
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.")] = None,
) -> None:
    """Print the version of mlpack."""
    if output is Machine.json:
        emit_json({"version": __version__})
    else:
        emit(f"mlpack {__version__}")
