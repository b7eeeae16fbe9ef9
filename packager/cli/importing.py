"""`mlpack import kubeflow|jobset|mxjob|mlcube|intel`: imports a workload of another system.

Tests: modelspec/importers/test_mlcube.py.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, get_args

import typer

from packager.base.errors import MlpackError, UsageError
from packager.base.values import Value
from packager.cli.arguments import SiteFile, announced_site
from packager.cli.cluster_arguments import ClusterOptions
from packager.cli.commands import group
from packager.cli.console import Form, emit_output, print_error, say
from packager.modelspec import importing as use_case
from packager.modelspec.importers.mlcube import Choices
from packager.modelspec.importers.source import read_bytes
from packager.modelspec.importing import Imported, ModelDestination

_FORMS: tuple[Form, ...] = get_args(Form)


class ImportOptions(Value, frozen=True):
    """The options of all imports."""

    output: Annotated[
        list[str],
        typer.Option(
            "-o",
            "--output",
            metavar="DIR|json|yaml|name",
            help="The folder in which the model's folder is made; or the form of the result. Repeatable.",
        ),
    ] = []
    image: Annotated[
        str | None, typer.Option("--image", metavar="REF", help="The image to use instead of its own.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a model of the same name that was imported.")] = False
    site_file: SiteFile = None

    @property
    def destination(self) -> ModelDestination:
        """The place for model folders, after the defaults of the site were read, which builds of them use."""
        has_defaults = announced_site(self.site_file) is not None
        folders = [Path(word) for word in self.output if word not in _FORMS]
        return ModelDestination(folders[-1] if folders else Path(), self.force, self.site_file, has_defaults)

    @property
    def form(self) -> Form | None:
        """The form of the result that is named last; None for none."""
        return next((form for word in reversed(self.output) for form in _FORMS if form == word), None)


class JobOptions(ImportOptions, frozen=True):
    """The options of imports of jobs, which the cluster may have."""

    from_cluster: Annotated[
        str | None,
        typer.Option("--from-cluster", metavar="KIND/NAME", help="Read this object of the cluster in place of a file."),
    ] = None

    def print_jobs(self, at: ClusterOptions, path: Path | None, verb: str) -> None:
        """Import the jobs, or the JobSets, of a file or of the cluster."""
        if (path is None) is (self.from_cluster is None):
            raise UsageError("expected either a file or --from-cluster KIND/NAME")
        named = str(path or self.from_cluster)
        text = read_bytes(path, named) if path else use_case.read_cluster(at.client(), named)
        _print_each(use_case.import_jobs(text, named, self.destination, image=self.image, verb=verb), self.form)


Manifest = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="YAML, as `kubectl get -o yaml` prints it.")]


def kubeflow(how: JobOptions, at: ClusterOptions, path: Manifest = None) -> None:
    """Import jobs of Kubeflow: PyTorchJob, TFJob, MPIJob, TrainJob."""
    how.print_jobs(at, path, "kubeflow")


def jobset(how: JobOptions, at: ClusterOptions, path: Manifest = None) -> None:
    """Import JobSets."""
    how.print_jobs(at, path, "jobset")


def mxjob(
    how: ImportOptions, path: Annotated[Path, typer.Argument(metavar="FILE", help="A manifest with an MxJob or MXJob.")]
) -> None:
    """Import a job of an MXNet operator (MxJob, MXJob), as a JobSet or a Job."""
    _print(use_case.import_mxjob(path, how.destination, image=how.image), how.form)


def mlcube(
    how: ImportOptions,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A cube: its folder, or its mlcube.yaml.")],
    settings: Annotated[
        list[str], typer.Option("-P", metavar="KEY=VALUE", help="Set a key of the cube. Repeatable.")
    ] = [],
    parameters: Annotated[
        list[str], typer.Option("--param", metavar="[TASK.]NAME=PATH", help="Another path of a parameter. Repeatable.")
    ] = [],
    tasks: Annotated[str | None, typer.Option("--task", metavar="A,B", help="These tasks only.")] = None,
    claim: Annotated[str | None, typer.Option(metavar="NAME", help="The claim that holds the workspace.")] = None,
    input_claim: Annotated[
        str | None, typer.Option("--input-claim", metavar="NAME", help="The claim of inputs that no task writes.")
    ] = None,
    parameter_claims: Annotated[
        list[str],
        typer.Option("--param-claim", metavar="[TASK.]NAME=CLAIM", help="The claim of a parameter. Repeatable."),
    ] = [],
    gpus: Annotated[int | None, typer.Option(metavar="N", min=0, help="How many GPUs.")] = None,
) -> None:
    """Import an MLCube: each task becomes a Job."""
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
    _print(use_case.import_mlcube(path, how.destination, choices), how.form)


def intel(
    how: ImportOptions,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A spec in tools/docker/specs, or a folder of them.")],
    downloads: Annotated[
        bool, typer.Option("--downloads", help="List what packages download; `mlpack build` prints their digests.")
    ] = False,
) -> None:
    """Import specs of Intel's Model Zoo, each package as a model of its own."""
    imported = use_case.import_intel(path, how.destination, image=how.image, downloads=downloads)
    _print_each(imported, how.form)


def _print_each(outcomes: Iterable[Imported | MlpackError], form: Form | None) -> None:
    """Print each model that was imported, or why it was not."""
    imported: list[Imported] = []
    errors: list[MlpackError] = []
    for outcome in outcomes:
        if isinstance(outcome, MlpackError):
            errors.append(outcome)
            print_error(outcome)
        else:
            imported.append(outcome)
            if form is None:
                _print(outcome, form)
    value = {"imported": [item.as_json() for item in imported], "errors": [item.as_json() for item in errors]}
    emit_output(value, [path for item in imported for path in item.files], form, ())
    if errors:
        if imported or len(errors) > 1:
            say(f"{len(imported)} imported, {len(errors)} failed")
        raise typer.Exit(max(error.exit_code for error in errors))


def _print(imported: Imported, form: Form | None) -> None:
    emit_output(imported.as_json(), imported.files, form)
    say(*map(str, imported.findings))
    if size := imported.usual_size:
        say(f"the workspace's claim requests {size}, the default: CLAIM_SIZE, here or in site.env, sets another size")
    say(f"build it with: {shlex.join(imported.build)}")


GROUP = group(
    "Turn a workload of another system into a model folder.",
    kubeflow=kubeflow,
    jobset=jobset,
    mxjob=mxjob,
    mlcube=mlcube,
    intel=intel,
)
