"""`mlpack lint`: everything that is wrong with specs, without building them."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.arguments import Specs, folders
from packager.cli.console import Machine, emit, emit_json, say
from packager.errors import SpecError


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(lint)


def lint(
    models: Annotated[
        list[str],
        typer.Argument(metavar="SPEC...", help="Paths of specs, or models' names.", show_default=False),
    ],
    specs: Specs = [],  # noqa: B006 - typer copies it
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.", show_default=False)] = None,
) -> None:
    """Check specs: one line for each problem, all of them; nothing when they are good."""
    from dataclasses import asdict

    from packager.problems import Problem
    from packager.spec.catalog import find
    from packager.spec.load import load

    problems: list[Problem] = []
    for model in models:
        try:
            load(find(model, folders(specs)))
        except SpecError as error:
            problems.extend(error.problems or [Problem(model, 0, 0, str(error), error.hint)])
    if output is Machine.json:
        emit_json([asdict(problem) for problem in problems])
    else:
        for problem in problems:
            emit(str(problem))
    if problems:
        say(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}")
        raise typer.Exit(SpecError.exit_code)
