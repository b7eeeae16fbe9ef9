"""`mlpack import mxjob|mlcube|intel`: turns a workload of another system into a model folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.console import emit_data, emit_json, say

if TYPE_CHECKING:
    from packager.app.importing import Imported, ModelDestination

Output = Annotated[
    list[str],
    typer.Option(
        "-o",
        "--output",
        metavar="DIR|json",
        help="The folder in which the model's folder is made; `json` prints the result as JSON. Repeatable.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a model of the same name that was imported.")]
Image = Annotated[
    str | None,
    typer.Option("--image", metavar="REF", help="The image to use instead of its own.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Turn a workload of another system into a model folder.", no_args_is_help=True)
    group.command()(mxjob)
    app.add_typer(group, name="import")


def mxjob(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A manifest with an MxJob or MXJob.")],
    output: Output = [],  # noqa: B006 - typer copies it
    image: Image = None,
    force: Force = False,
) -> None:
    """Import a job of an MXNet operator (MxJob, MXJob), as a JobSet or a Job."""
    from packager.app.importing import import_mxjob

    _print(import_mxjob(path, _destination(output, force=force), image=image), output)


def _destination(output: list[str], *, force: bool) -> ModelDestination:
    from packager.app.importing import ModelDestination

    folders = [Path(word) for word in output if word != "json"]
    return ModelDestination(folders[-1] if folders else Path(), force)


def _print(imported: Imported, output: list[str]) -> None:
    if "json" in output:
        emit_json(imported.as_json())
    else:
        for path in imported.files:
            emit_data(str(path))
    for finding in imported.findings:
        say(str(finding))
    say(f"build it with: {shlex.join(imported.build)}")
