"""`mlpack init`: creates a new model with a spec that builds without changes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.builder import init as use_case
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.console import OutputFormat, emit_output, say

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = use_case.kinds()
WAYS = use_case.ways()


def _any_of(names: Sequence[str]) -> str:
    return " or ".join((", ".join(names[:-1]), names[-1]))


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")],
    destination: Annotated[
        Path, typer.Option("-d", "--destination", metavar="DIR", help="Where to create the model's folder.")
    ] = Path(),
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help=f"The kind of its overlay on several nodes: {_any_of(KINDS)}."),
    ] = None,
    rendezvous: Annotated[
        str | None,
        typer.Option(
            "--rendezvous",
            metavar="NAME",
            help="; ".join(f"How the pods of a {kind} find each other: {_any_of(ways)}" for kind, ways in WAYS.items())
            + ".",
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Create a folder with a commented spec, a script and a Dockerfile that builds without changes."""
    folder = destination / name
    files = [str(path) for path in use_case.init(name, destination, kind, rendezvous)]
    emit_output({"folder": str(folder), "files": files}, files, output or OutputFormat.name)
    say(f"build it with: {shlex.join(['mlpack', 'build', str(folder) if folder.is_absolute() else f'./{folder}'])}")
