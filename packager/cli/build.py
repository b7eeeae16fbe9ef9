"""`mlpack build`: builds packages from a spec and writes them to disk."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from packager.base.errors import MlpackError
from packager.base.values import replace
from packager.builder.build import Built, Destination, as_json
from packager.builder.build import build as build_packages
from packager.cli.arguments import ModelOptions, SiteFile, announced_site, folders, source_date_epoch
from packager.cli.console import Output, emit_data, emit_output, print_error, progress, say


def build(
    options: ModelOptions,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="A model's name or alias, or a spec.")] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Build every variant of the model; without MODEL, of every model in the folders of --specs, or of "
            "every bundled model.",
        ),
    ] = False,
    destination: Annotated[Path, typer.Option("-d", "--destination", metavar="DIR", help="Where to write.")] = Path(),
    site_file: SiteFile = None,
    form: Annotated[
        Literal["tar.gz", "dir"], typer.Option("--format", help="The form of the package: an archive or a folder.")
    ] = "tar.gz",
    versioned: Annotated[
        bool, typer.Option("--versioned", help="Add the spec's version to the name of the file: NAME-1.0.0.tar.gz.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    output: Output = None,
) -> None:
    """Build the package of a model: a tarball that runs with kubectl alone."""
    # --all means the models in the user's folders, if there are any; a bundled model can still be named.
    found = options.specs if options.specs and model is None else folders(options.specs)
    request = options.request(model, found)
    request = replace(request, every=every, defaults=announced_site(site_file))
    mtime = source_date_epoch() or 0
    where = Destination(destination, as_folder=form == "dir", force=force, mtime=mtime, versioned=versioned)
    outcomes: list[Built | MlpackError] = []
    for outcome in build_packages(request, where, tell=say, progress=progress):
        outcomes.append(outcome)
        if isinstance(outcome, MlpackError):
            print_error(outcome)
        elif output is None:
            emit_data(str(outcome.path))
    built = [outcome for outcome in outcomes if isinstance(outcome, Built)]
    if output is None and not every and built:
        say("next, with README.md in the package:")
        say(*(f"  {line}" for line in built[0].next_steps))
    if output is not None:
        emit_output(as_json(outcomes), [item.path for item in built], output)
    failures = [outcome for outcome in outcomes if isinstance(outcome, MlpackError)]
    if failures:
        if every:
            say(f"{len(outcomes) - len(failures)} built, {len(failures)} failed")
        raise typer.Exit(max(failure.exit_code for failure in failures))
