"""`mlpack image build|push`: builds and pushes the package's image with local tools.

Tests: publish/test_builders.py.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import ToolError
from packager.base.values import Value
from packager.cli.arguments import OnlyOverlay, PackagePath, Program, RegistryHost
from packager.cli.commands import group
from packager.cli.console import Output, emit, emit_output, say, state
from packager.cli.host import host
from packager.publish import builders as use_case
from packager.publish.builders import ImagePlan, ImageRequest

Extra = Annotated[list[str], typer.Argument(metavar="-- ARGUMENTS", help="More arguments for the program, after `--`.")]


class ImageOptions(Value, frozen=True):
    """The options of both verbs."""

    overlay: OnlyOverlay = None
    registry: RegistryHost = None
    program: Annotated[
        str | None,
        typer.Option("--with", metavar="PROGRAM", help="docker, podman or buildah; by default the first on PATH."),
    ] = None
    kubectl: Program = "kubectl"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands without running them.")] = False
    output: Output = None

    def request(self, package: Path, arguments: Sequence[str]) -> ImageRequest:
        """Return the request to build or push the image of a package."""
        how = self.overlay, self.registry, self.program, self.kubectl, tuple(arguments)
        return ImageRequest(package, host().runner, *how)


def build(options: ImageOptions, package: PackagePath, arguments: Extra = []) -> None:
    """Build the package's image from its Dockerfile, with the name that the package uses. Prints the name."""
    with use_case.build(options.request(package, arguments)) as plan:
        _tell(plan)
        if not options.dry_run:
            _run(plan.commands[0])
    lines = plan.shown if options.dry_run else plan.images
    emit_output(plan.as_json(), plan.images, options.output, lines)


def push(options: ImageOptions, package: PackagePath, arguments: Extra = []) -> None:
    """Push the image to the registry that the package pulls from. Prints the name."""
    plan = use_case.push(options.request(package, arguments))
    _tell(plan)
    for image, command in zip(plan.images, plan.commands, strict=True):
        if not options.dry_run:
            _run(command)
        if options.output is None:
            emit(shlex.join(command) if options.dry_run else image)
    emit_output(plan.as_json(), plan.images, options.output, ())


def _tell(plan: ImagePlan) -> None:
    """Print which images are not built from the package."""
    for image, workload in plan.others.items():
        say(f"note: {image}, which {workload} uses, is not the package's image: build and push it elsewhere")


def _run(command: Sequence[str]) -> None:
    say(f"+ {shlex.join(command)}")
    returncode = host().runner.run_in_terminal(command, stdout_to_stderr=True, quiet=state.is_quiet)
    if returncode != 0:
        raise ToolError(f"{command[0]} {command[1]} ended with exit code {returncode}")


GROUP = group("Build or push the package's image, with docker, podman or buildah.", build=build, push=push)
