"""`mlpack help`: prints the help of a command. Tests: cli/test_help.py."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.cli import completing
from packager.cli.console import emit_lines


def help(  # noqa: A001 - the verb's name
    ctx: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...", help="A command, such as `operator install`.", autocompletion=completing.commands
        ),
    ] = [],  # noqa: B006 - typer copies it
) -> None:
    """Print the help of a command, as its --help does; without a command, that of mlpack."""
    from packager.cli.verbs import subcommand

    context = ctx.parent or ctx
    for name in command:
        inner = subcommand(context.command, name)
        if inner is None:
            raise UsageError(f"unknown command '{' '.join(command)}'", hint="mlpack help lists all commands")
        context = typer.Context(inner, parent=context, info_name=name, **inner.context_settings)
    emit_lines(context.get_help())
