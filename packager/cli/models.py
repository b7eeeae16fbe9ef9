"""`mlpack init`, `list`, `show` and `lint`: make, list, describe and check models."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import SpecError
from packager.builder import init as use_case
from packager.cli.arguments import Specs, folders
from packager.cli.console import Output, emit, emit_output, print_error, say, table
from packager.modelspec.catalog import InvalidModel, Model, models
from packager.modelspec.catalog import model as find_model


def _any_of(names: Sequence[str]) -> str:
    return " or ".join((", ".join(names[:-1]), names[-1]))


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")],
    destination: Annotated[
        Path, typer.Option("-d", "--destination", metavar="DIR", help="Where to create the model's folder.")
    ] = Path(),
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help=f"The kind of its overlay on several nodes: {_any_of(use_case.kinds())}.",
        ),
    ] = None,
    rendezvous: Annotated[
        str | None,
        typer.Option(
            "--rendezvous",
            metavar="NAME",
            help="; ".join(
                f"How the pods of a {kind} find each other: {_any_of(ways)}" for kind, ways in use_case.ways().items()
            )
            + ".",
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Create a folder with a commented spec, a script and a Dockerfile that builds without changes."""
    folder = destination / name
    files = [str(path) for path in use_case.init(name, destination, kind, rendezvous)]
    emit_output({"folder": str(folder), "files": files}, files, output)
    say(f"build it with: {shlex.join(['mlpack', 'build', str(folder) if folder.is_absolute() else f'./{folder}'])}")


def list_models(specs: Specs = [], output: Output = None) -> None:
    """List the models, their variants and aliases."""
    answers = list(models(folders(specs)))
    valid = [answer for answer in answers if isinstance(answer, Model)]
    invalid = [answer for answer in answers if isinstance(answer, InvalidModel)]
    for failure in invalid:
        print_error(failure.error)
    summaries = [*(answer.summary_as_json() for answer in valid), *(answer.summary_as_json() for answer in invalid)]
    names = [answer.spec.name for answer in valid]
    emit_output(summaries, names, output, table(_rows(valid), gap="   "))
    if invalid:
        raise typer.Exit(SpecError.exit_code)


def _rows(found: Sequence[Model]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("NAME", "VERSION", "VARIANTS", "ALIASES", "TITLE")]
    for group, answers in groupby(found, lambda answer: answer.group):
        rows += [(f"{group}:",)] if group else []
        for spec in (answer.spec for answer in answers):
            variants = ", ".join(variant.label for variant in spec.variants)
            aliases = ", ".join(spec.aliases) or "-"
            rows.append((f"{'  ' if group else ''}{spec.name}", spec.version or "-", variants, aliases, spec.title))
    return rows


def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's name or alias, or the path of a spec.")],
    specs: Specs = [],
    output: Output = None,
) -> None:
    """Show a model: what it is, its variants, overlays and parameters."""
    answer = find_model(model, folders(specs))
    if output is not None:
        emit_output(answer.as_json(), [answer.spec.name], output)
        return
    spec = answer.spec
    emit(f"{spec.name}{f' {spec.version}' if spec.version else ''}: {spec.title}")
    if spec.description:
        emit("", *spec.description.strip().split("\n"))
    rows = [("VARIANT", "PACKAGE", "OVERLAYS", "SCRIPT")]
    for variant in spec.variants:
        overlays = ", ".join(variant.overlays or spec.overlays)
        rows.append((variant.label, spec.package_name(variant), overlays, ", ".join(variant.run.scripts) or "-"))
    emit("", *table(rows, gap="   "), *_parameters(answer), "")
    images = [spec.image_of(variant) for variant in spec.variants]
    emit(*dict.fromkeys(f"image {image.registry}/{image.reference}" for image in images))
    emit(f"spec  {answer.path}")


def _parameters(answer: Model) -> Iterator[str]:
    """Yield a table of the environment of a model, after an empty line; nothing if it has none."""
    from packager.base.fields import Parameter, text

    rows = [("PARAMETER", "VALUE", "WHAT IT DOES")]
    for key, entry in answer.spec.environment.items():
        parameter = entry if isinstance(entry, Parameter) else Parameter(value=entry)
        rows.append((key, text(parameter.value), parameter.description))
    if len(rows) > 1:
        yield ""
        yield from table(rows, gap="   ")


def lint(
    models: Annotated[list[str], typer.Argument(metavar="SPEC...", help="Paths of specs, or models' names.")],
    specs: Specs = [],
    output: Output = None,
) -> None:
    """Check specs and print one line for each problem; prints nothing when there are none."""
    from packager.modelspec.catalog import lint as check

    answer = check(models, folders(specs), tell=say)
    files = dict.fromkeys(problem.file for problem in answer.problems)
    emit_output(answer.as_json(), files, output, map(str, answer.problems))
    if output is None:
        say(*(f"warning: {warning}" for warning in answer.warnings))
    if answer.problems:
        say(f"{len(answer.problems)} problem{'s' if len(answer.problems) > 1 else ''}")
        raise typer.Exit(answer.exit_code)
