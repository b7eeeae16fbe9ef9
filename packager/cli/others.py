"""`mlpack schema`, `mlpack completion` and `mlpack version`. Tests: cli/test_cli.py."""

from typing import Annotated, Any, Literal, cast

import typer
from typer import completion as scripts

from packager import __version__
from packager.cli.console import Output, emit_data, emit_json, emit_output


def schema() -> None:
    """Print the JSON Schema of specs."""
    from packager.modelspec.schema import json_schema

    emit_json(json_schema())


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell: `source <(mlpack completion bash)`."""
    script = cast("Any", scripts).get_completion_script
    emit_data(script(prog_name="mlpack", complete_var="_MLPACK_COMPLETE", shell=shell))


def version(output: Output = None) -> None:
    """Print the version of mlpack."""
    emit_output({"version": __version__}, [__version__], output, [f"mlpack {__version__}"])
