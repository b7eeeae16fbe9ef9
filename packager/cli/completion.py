"""`mlpack completion`: the script that teaches a shell the command's verbs and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from packager.cli.console import emit


class Shell(StrEnum):
    """The shells that have one."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(help="Which shell.", show_default=False)],
) -> None:
    """Print the completion script of a shell: `source <(mlpack completion bash)`."""
    from typer._completion_shared import get_completion_script

    emit(get_completion_script(prog_name="mlpack", complete_var="_MLPACK_COMPLETE", shell=shell.value))
