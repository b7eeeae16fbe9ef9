"""`mlpack image build|push`: builds and pushes the package's image with local tools.

Tests: publish/test_builders.py.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import ToolError
from packager.cli.arguments import Output, RegistryHost  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import OnlyOverlay, PackagePath, Program  # noqa: TC001 - the same
from packager.cli.console import emit, emit_output, is_quiet, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.runner import Runner
    from packager.publish.builders import ImagePlan

Builders = Annotated[
    str | None,
    typer.Option("--with", metavar="PROGRAM", help="docker, podman or buildah; by default the first on PATH."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands without running them.")]
Extra = Annotated[list[str], typer.Argument(metavar="-- ARGUMENTS", help="More arguments for the program, after `--`.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Build or push the package's image, with docker, podman or buildah.", no_args_is_help=True)
    group.command()(build)
    group.command()(push)
    app.add_typer(group, name="image")


def build(
    ctx: typer.Context,
    package: PackagePath,
    arguments: Extra = [],  # noqa: B006 - typer copies it
    overlay: OnlyOverlay = None,
    registry: RegistryHost = None,
    program: Builders = None,
    kubectl: Program = "kubectl",
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Build the package's image from its Dockerfile, with the name that the package uses. Prints the name."""
    from packager.cli.host import host
    from packager.publish import builders as use_case

    runner = host(ctx).runner
    request = use_case.ImageRequest(package, runner, overlay, registry, program, kubectl, tuple(arguments))
    with use_case.build(request) as plan:
        _tell(plan)
        if not dry_run:
            _run(runner, plan.commands[0])
    if output is not None:
        emit_output(plan.as_json(), plan.images, output, is_bounded=False)
        return
    for line in plan.shown if dry_run else plan.images:
        emit(line)


def push(
    ctx: typer.Context,
    package: PackagePath,
    arguments: Extra = [],  # noqa: B006
    overlay: OnlyOverlay = None,
    registry: RegistryHost = None,
    program: Builders = None,
    kubectl: Program = "kubectl",
    lock: Annotated[
        bool, typer.Option("--lock", help="Then lock the package to the digests that the registry has, in place.")
    ] = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Push the image to the registry that the package pulls from. Prints the name."""
    from packager.cli.host import host
    from packager.publish import builders as use_case

    runner = host(ctx).runner
    plan = use_case.push(use_case.ImageRequest(package, runner, overlay, registry, program, kubectl, tuple(arguments)))
    _tell(plan)
    for image, command in zip(plan.images, plan.commands, strict=True):
        if not dry_run:
            _run(runner, command)
        if output is None:
            emit(shlex.join(command) if dry_run else image)
    if lock and not dry_run:
        from packager.cli.lock import lock_images

        lock_images(ctx, package, registry, overlay, kubectl)
    if output is not None:
        emit_output(plan.as_json(), plan.images, output, is_bounded=False)


def _tell(plan: ImagePlan) -> None:
    """Print which images are not built from the package."""
    for image, workload in plan.others.items():
        say(f"note: {image}, which {workload} uses, is not the package's image: build and push it elsewhere")


def _run(runner: Runner, command: Sequence[str]) -> None:
    say(f"+ {shlex.join(command)}")
    returncode = runner.run_in_terminal(command, stdout_to_stderr=True, quiet=is_quiet())
    if returncode != 0:
        raise ToolError(f"{command[0]} {command[1]} ended with exit code {returncode}")
