"""`mlpack lint`: finds every problem of specs without building them."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.arguments import Specs, folders
from packager.cli.console import Machine, emit, emit_json, say


def lint(
    models: Annotated[list[str], typer.Argument(metavar="SPEC...", help="Paths of specs, or models' names.")],
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.")] = None,
) -> None:
    """Check specs and print one line for each problem; prints nothing when there are none."""
    from packager.app.lint import lint as check

    answer = check(models, folders(specs), tell=say)
    if output is Machine.json:
        emit_json(answer.as_json())
    else:
        for problem in answer.problems:
            emit(str(problem))
        for warning in answer.warnings:
            say(f"warning: {warning}")
    if answer.problems:
        say(f"{len(answer.problems)} problem{'s' if len(answer.problems) > 1 else ''}")
        raise typer.Exit(answer.exit_code)
