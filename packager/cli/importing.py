"""`mlpack import kubeflow|jobset|mxjob|mlcube|intel`: imports a workload of another system.

Tests: modelspec/importers/test_mlcube.py.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import MlpackError, UsageError
from packager.cli.arguments import SiteFile, announced_site
from packager.cli.cluster_arguments import ClusterOptions
from packager.cli.console import OutputFormat, emit_output, print_error, say
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packager.modelspec.importing import Imported, ModelDestination

_FORMS = {form.value for form in OutputFormat}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of all imports."""

    output: Annotated[
        list[str],
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|json|yaml|name",
            help="The folder in which the model's folder is made; or the form of the result. Repeatable.",
        ),
    ] = field(default_factory=list)
    image: Annotated[
        str | None, typer.Option("--image", metavar="REF", help="The image to use instead of its own.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a model of the same name that was imported.")] = False
    site_file: SiteFile = None

    @property
    def destination(self) -> ModelDestination:
        """The place for model folders, after the defaults of the site were read, which builds of them use."""
        from packager.modelspec.importing import ModelDestination

        site = announced_site(self.site_file)
        folders = [Path(word) for word in self.output if word not in _FORMS]
        has_defaults = site is not None
        return ModelDestination(folders[-1] if folders else Path(), self.force, self.site_file, has_defaults)

    @property
    def form(self) -> OutputFormat | None:
        """The form of the result that is named last; None for none."""
        return next((OutputFormat(word) for word in reversed(self.output) if word in _FORMS), None)


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Turn a workload of another system into a model folder.", no_args_is_help=True)
    jobs = _import_jobs("kubeflow", "Import jobs of Kubeflow: PyTorchJob, TFJob, MPIJob, TrainJob.")
    for verb in (jobs, _import_jobs("jobset", "Import JobSets."), mxjob, mlcube, intel):
        group.command()(verb)
    app.add_typer(group, name="import")


def _import_jobs(verb: str, help_text: str) -> Callable[..., None]:
    """Return the verb that imports jobs of Kubeflow, or JobSets."""

    @with_options("at", ClusterOptions)
    @with_options("how", ImportOptions)
    def run(
        ctx: typer.Context,
        at: ClusterOptions,
        how: ImportOptions,
        path: Annotated[
            Path | None, typer.Argument(metavar="[FILE]", help="YAML, as `kubectl get -o yaml` prints it.")
        ] = None,
        from_cluster: Annotated[
            str | None,
            typer.Option(
                "--from-cluster", metavar="KIND/NAME", help="Read this object of the cluster in place of a file."
            ),
        ] = None,
    ) -> None:
        from packager.modelspec.importers.source import read_bytes
        from packager.modelspec.importing import import_jobs, read_cluster

        if (path is None) is (from_cluster is None):
            raise UsageError("expected either a file or --from-cluster KIND/NAME")
        text = read_bytes(path, str(path)) if path else read_cluster(at.client(ctx), from_cluster or "")
        name = str(path or from_cluster)
        outcomes = import_jobs(text, name, how.destination, image=how.image, sets=verb == "jobset")
        _print_each(outcomes, how)

    run.__name__, run.__doc__ = verb, help_text
    return run


@with_options("how", ImportOptions)
def mxjob(
    how: ImportOptions, path: Annotated[Path, typer.Argument(metavar="FILE", help="A manifest with an MxJob or MXJob.")]
) -> None:
    """Import a job of an MXNet operator (MxJob, MXJob), as a JobSet or a Job."""
    from packager.modelspec.importing import import_mxjob

    _print(import_mxjob(path, how.destination, image=how.image), how)


@with_options("how", ImportOptions)
def mlcube(
    how: ImportOptions,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A cube: its folder, or its mlcube.yaml.")],
    settings: Annotated[
        list[str], typer.Option("-P", metavar="KEY=VALUE", help="Set a key of the cube. Repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    parameters: Annotated[
        list[str], typer.Option("--param", metavar="[TASK.]NAME=PATH", help="Another path of a parameter. Repeatable.")
    ] = [],  # noqa: B006
    tasks: Annotated[str | None, typer.Option("--task", metavar="A,B", help="These tasks only.")] = None,
    claim: Annotated[str | None, typer.Option(metavar="NAME", help="The claim that holds the workspace.")] = None,
    input_claim: Annotated[
        str | None, typer.Option("--input-claim", metavar="NAME", help="The claim of inputs that no task writes.")
    ] = None,
    parameter_claims: Annotated[
        list[str],
        typer.Option("--param-claim", metavar="[TASK.]NAME=CLAIM", help="The claim of a parameter. Repeatable."),
    ] = [],  # noqa: B006
    gpus: Annotated[int | None, typer.Option(metavar="N", min=0, help="How many GPUs.")] = None,
) -> None:
    """Import an MLCube: each task becomes a Job."""
    from packager.modelspec.importers.mlcube import Choices
    from packager.modelspec.importing import import_mlcube

    choices = Choices(
        settings=tuple(settings),
        parameters=tuple(parameters),
        tasks=tuple(tasks.split(",")) if tasks else None,
        image=how.image,
        claim=claim,
        input_claim=input_claim,
        parameter_claims=tuple(parameter_claims),
        gpus=gpus,
    )
    _print(import_mlcube(path, how.destination, choices), how)


@with_options("how", ImportOptions)
def intel(
    how: ImportOptions,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A spec in tools/docker/specs, or a folder of them.")],
    models: Annotated[
        Path | None,
        typer.Option("--models-dir", metavar="DIR", help="The checkout of the zoo.", show_default="that of the spec"),
    ] = None,
    downloads: Annotated[
        bool, typer.Option("--downloads", help="List what packages download, for `mlpack build --record`.")
    ] = False,
) -> None:
    """Import specs of Intel's Model Zoo, each package as a model of its own."""
    from packager.modelspec.importing import import_intel

    _print_each(import_intel(path, how.destination, models=models, image=how.image, downloads=downloads), how)


def _print_each(outcomes: Iterable[Imported | MlpackError], how: ImportOptions) -> None:
    """Print each model that was imported, or why it was not."""
    imported: list[Imported] = []
    errors: list[MlpackError] = []
    for outcome in outcomes:
        if isinstance(outcome, MlpackError):
            errors.append(outcome)
            print_error(outcome)
        else:
            imported.append(outcome)
            if how.form is None:
                _print(outcome, how)
    if how.form is not None:
        value = {"imported": [item.as_json() for item in imported], "errors": [item.as_json() for item in errors]}
        emit_output(value, [str(path) for item in imported for path in item.files], how.form)
    if errors:
        if imported or len(errors) > 1:
            say(f"{len(imported)} imported, {len(errors)} failed")
        raise typer.Exit(max(error.exit_code for error in errors))


def _print(imported: Imported, how: ImportOptions) -> None:
    emit_output(imported.as_json(), map(str, imported.files), how.form or OutputFormat.name)
    for finding in imported.findings:
        say(str(finding))
    if imported.usual_size:
        size = imported.usual_size
        say(f"the workspace's claim requests {size}, the default: CLAIM_SIZE, here or in site.env, sets another size")
    say(f"build it with: {shlex.join(imported.build)}")
