"""`mlpack overlay`: writes an overlay of one's own outside of a package."""

from pathlib import Path
from typing import Annotated

import typer

from packager.cli.arguments import Theirs, Yours
from packager.cli.console import Output, emit_data, emit_output, say
from packager.configure.overlay import Choice, write


def overlay(
    package: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a package.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder that contains the overlays.")],
    name: Annotated[str | None, typer.Option("--overlay", metavar="NAME", help="The overlay; by default all.")] = None,
    yours: Yours = [],
    theirs: Theirs = [],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the result.")] = False,
    output: Output = None,
) -> None:
    """Write an overlay of your own outside of a package, and print its folder: DIR/NAME for each overlay.

    `kubectl apply -k DIR/NAME` applies it, and all other commands take DIR/NAME in place of a package. The package's
    folder is not edited. For a newer build, replace that folder and run the same command again: your edits are carried
    over, and new values are named. Exit code 9 where both changed the same place: then nothing is written.
    """
    choices = {Path(file): Choice.yours for file in yours} | {Path(file): Choice.theirs for file in theirs}
    written = write(package, to, name, choices, dry_run=dry_run)
    if output is not None:
        emit_output([one.as_json() for one in written], [one.folder for one in written], output)
        return
    for one in written:
        emit_data(str(one.folder))
        say(*(f"new value: {key}" for key in one.new_keys))
