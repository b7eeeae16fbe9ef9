"""`mlpack version`: prints the version. Tests: cli/test_cli.py."""

from __future__ import annotations

from packager import __version__
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit, emit_output


def version(
    output: Output = None,
) -> None:
    """Print the version of mlpack."""
    if output is not None:
        emit_output({"version": __version__}, [__version__], output)
    else:
        emit(f"mlpack {__version__}")
