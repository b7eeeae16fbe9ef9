"""`mlpack lint`: finds every problem of specs without building them."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.arguments import Output, Specs, folders
from packager.cli.console import emit, emit_output, say


def lint(
    models: Annotated[list[str], typer.Argument(metavar="SPEC...", help="Paths of specs, or models' names.")],
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Output = None,
) -> None:
    """Check specs and print one line for each problem; prints nothing when there are none."""
    from packager.modelspec.lint import lint as check

    answer = check(models, folders(specs), tell=say)
    if output is not None:
        emit_output(answer.as_json(), dict.fromkeys(problem.file for problem in answer.problems), output)
    else:
        for problem in answer.problems:
            emit(str(problem))
        for warning in answer.warnings:
            say(f"warning: {warning}")
    if answer.problems:
        say(f"{len(answer.problems)} problem{'s' if len(answer.problems) > 1 else ''}")
        raise typer.Exit(answer.exit_code)
