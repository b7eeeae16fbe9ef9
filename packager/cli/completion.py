"""`mlpack completion`: prints the script that completes verbs and options in a shell. Tests: cli/test_cli.py."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, cast

import typer

from packager.cli.console import emit_data


class Shell(StrEnum):
    """The shells for which a completion script exists."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell: `source <(mlpack completion bash)`."""
    from typer import completion as scripts

    script = cast("Any", scripts).get_completion_script
    emit_data(script(prog_name="mlpack", complete_var="_MLPACK_COMPLETE", shell=shell.value))
