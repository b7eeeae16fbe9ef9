"""`mlpack import kubeflow|jobset|mxjob|mlcube|intel`: imports a workload of another system.

Tests: modelspec/importers/test_mlcube.py.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import MlpackError, UsageError
from packager.cli.arguments import SiteFile, announced_site
from packager.cli.cluster_arguments import ClusterOptions
from packager.cli.console import OutputFormat, emit_output, print_error, say
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.app.importing import Imported, ModelDestination

Output = Annotated[
    list[str],
    typer.Option(
        "-o",
        "--output",
        metavar="DIR|json|yaml|name",
        help="The folder in which the model's folder is made; or the form in which the result is printed. Repeatable.",
    ),
]
_FORMS = {form.value for form in OutputFormat}
Force = Annotated[bool, typer.Option("--force", help="Replace a model of the same name that was imported.")]
Image = Annotated[str | None, typer.Option("--image", metavar="REF", help="The image to use instead of its own.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Turn a workload of another system into a model folder.", no_args_is_help=True)
    for verb in (kubeflow, jobset, mxjob, mlcube, intel):
        group.command()(verb)
    app.add_typer(group, name="import")


FromCluster = Annotated[
    str | None,
    typer.Option("--from-cluster", metavar="KIND/NAME", help="Read this object of the cluster in place of a file."),
]
Manifest = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="YAML or JSON, as `kubectl get -o yaml` prints.")
]


@with_options("at", ClusterOptions)
def kubeflow(
    ctx: typer.Context,
    at: ClusterOptions,
    path: Manifest = None,
    from_cluster: FromCluster = None,
    output: Output = [],  # noqa: B006
    image: Image = None,
    force: Force = False,
    site_file: SiteFile = None,
) -> None:
    """Import jobs of Kubeflow: PyTorchJob, TFJob, MPIJob, TrainJob."""
    from packager.app.importing import import_jobs

    text, name = _source(ctx, at, path, from_cluster)
    _import(import_jobs(text, name, _destination(output, site_file, force=force), image=image), output)


@with_options("at", ClusterOptions)
def jobset(
    ctx: typer.Context,
    at: ClusterOptions,
    path: Manifest = None,
    from_cluster: FromCluster = None,
    output: Output = [],  # noqa: B006
    image: Image = None,
    force: Force = False,
    site_file: SiteFile = None,
) -> None:
    """Import JobSets."""
    from packager.app.importing import import_jobs

    text, name = _source(ctx, at, path, from_cluster)
    _import(import_jobs(text, name, _destination(output, site_file, force=force), image=image, sets=True), output)


def mxjob(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A manifest with an MxJob or MXJob.")],
    output: Output = [],  # noqa: B006 - typer copies it
    image: Image = None,
    force: Force = False,
    site_file: SiteFile = None,
) -> None:
    """Import a job of an MXNet operator (MxJob, MXJob), as a JobSet or a Job."""
    from packager.app.importing import import_mxjob

    _print(import_mxjob(path, _destination(output, site_file, force=force), image=image), output)


def mlcube(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A cube: its folder, or its mlcube.yaml.")],
    output: Output = [],  # noqa: B006 - typer copies it
    settings: Annotated[
        list[str], typer.Option("-P", metavar="KEY=VALUE", help="Set a key of the cube. Repeatable.")
    ] = [],  # noqa: B006
    parameters: Annotated[
        list[str], typer.Option("--param", metavar="[TASK.]NAME=PATH", help="Another path of a parameter. Repeatable.")
    ] = [],  # noqa: B006
    tasks: Annotated[str | None, typer.Option("--task", metavar="A,B", help="These tasks only.")] = None,
    image: Image = None,
    claim: Annotated[str | None, typer.Option(metavar="NAME", help="The claim that holds the workspace.")] = None,
    input_claim: Annotated[
        str | None, typer.Option("--input-claim", metavar="NAME", help="The claim of inputs that no task writes.")
    ] = None,
    parameter_claims: Annotated[
        list[str],
        typer.Option("--param-claim", metavar="[TASK.]NAME=CLAIM", help="The claim of a parameter. Repeatable."),
    ] = [],  # noqa: B006
    gpus: Annotated[int | None, typer.Option(metavar="N", min=0, help="How many GPUs.")] = None,
    force: Force = False,
    site_file: SiteFile = None,
) -> None:
    """Import an MLCube: each task becomes a Job."""
    from packager.app.importing import import_mlcube, mlcube_choices

    choices = mlcube_choices(
        settings=tuple(settings),
        parameters=tuple(parameters),
        tasks=tuple(tasks.split(",")) if tasks else None,
        image=image,
        claim=claim,
        input_claim=input_claim,
        parameter_claims=tuple(parameter_claims),
        gpus=gpus,
    )
    _print(import_mlcube(path, _destination(output, site_file, force=force), choices), output)


def intel(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A spec in tools/docker/specs, or a folder of them.")],
    output: Output = [],  # noqa: B006
    models: Annotated[
        Path | None,
        typer.Option("--models-dir", metavar="DIR", help="The checkout of the zoo.", show_default="that of the spec"),
    ] = None,
    downloads: Annotated[
        bool, typer.Option("--downloads", help="List what packages download, for `mlpack build --record`.")
    ] = False,
    image: Image = None,
    force: Force = False,
    site_file: SiteFile = None,
) -> None:
    """Import specs of Intel's Model Zoo, each package as a model of its own."""
    from packager.app.importing import import_intel

    destination = _destination(output, site_file, force=force)
    _import(import_intel(path, destination, models=models, image=image, downloads=downloads), output)


def _source(ctx: typer.Context, at: ClusterOptions, path: Path | None, what: str | None) -> tuple[bytes, str]:
    """Return the content of a file or of an object in a cluster, and its name."""
    from packager.app.importing import read_cluster, read_file

    if what is not None and path is None:
        return read_cluster(at.client(ctx), what), what
    if path is None or what is not None:
        raise UsageError("expected either a file or --from-cluster KIND/NAME")
    return read_file(path), str(path)


def _import(outcomes: Iterable[Imported | MlpackError], output: list[str]) -> None:
    """Print each model that was imported, or why it was not."""
    imported: list[Imported] = []
    errors: list[MlpackError] = []
    form = _form(output)
    for outcome in outcomes:
        if isinstance(outcome, MlpackError):
            errors.append(outcome)
            print_error(outcome)
        else:
            imported.append(outcome)
            if form is None:
                _print(outcome, output)
    if form is not None:
        value = {"imported": [item.as_json() for item in imported], "errors": [item.as_json() for item in errors]}
        emit_output(value, [str(path) for item in imported for path in item.files], form)
    if errors:
        if imported or len(errors) > 1:
            say(f"{len(imported)} imported, {len(errors)} failed")
        raise typer.Exit(max(error.exit_code for error in errors))


def _destination(output: list[str], site_file: Path | None, *, force: bool) -> ModelDestination:
    """Return the place for model folders, after the defaults of the site were read, which builds of them use."""
    from packager.app.importing import ModelDestination

    site = announced_site(site_file)
    folders = [Path(word) for word in output if word not in _FORMS]
    return ModelDestination(folders[-1] if folders else Path(), force, site_file, has_defaults=site is not None)


def _form(output: list[str]) -> OutputFormat | None:
    """Return the form of the result that `output` names last; None for none."""
    return next((OutputFormat(word) for word in reversed(output) if word in _FORMS), None)


def _print(imported: Imported, output: list[str]) -> None:
    emit_output(imported.as_json(), map(str, imported.files), _form(output) or OutputFormat.name)
    for finding in imported.findings:
        say(str(finding))
    if imported.usual_size:
        size = imported.usual_size
        say(f"the workspace's claim requests {size}, the default: CLAIM_SIZE, here or in site.env, sets another size")
    say(f"build it with: {shlex.join(imported.build)}")
