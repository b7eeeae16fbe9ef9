"""`mlpack init`: creates a new model with a spec that builds without changes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from packager.cli.console import emit_data, say


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(init)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.", show_default=False)],
    destination: Annotated[
        Path, typer.Option("-d", "--destination", metavar="DIR", help="Where to create the model's folder.")
    ] = Path(),
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="The kind of its overlay on several nodes: MPIJob or JobSet."),
    ] = None,
    rendezvous: Annotated[
        str | None,
        typer.Option(
            "--rendezvous",
            metavar="NAME",
            help="How the pods of a JobSet find each other: torch, dmlc, jax, xgboost or none.",
        ),
    ] = None,
) -> None:
    """Create a folder with a commented spec, a script and a Dockerfile that builds without changes."""
    from packager.app.init import init as make

    for path in make(name, destination, kind, rendezvous):
        emit_data(str(path))
    folder = destination / name
    say(f"build it with: {shlex.join(['mlpack', 'build', str(folder) if folder.is_absolute() else f'./{folder}'])}")
