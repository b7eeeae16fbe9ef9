"""`mlpack image build|push`: builds and pushes the package's image with local tools.

Tests: publish/test_builders.py.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import ToolError
from packager.base.paths import argument
from packager.cli.arguments import Output, RegistryHost  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import OnlyOverlay, PackagePath, Program  # noqa: TC001 - the same
from packager.cli.console import emit, emit_output, is_quiet, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.base.runner import Runner
    from packager.publish.builders import Builder

Builders = Annotated[
    str | None,
    typer.Option("--with", metavar="PROGRAM", help="docker, podman or buildah; by default the first that works."),
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
        _note(plan.builder)
        _tell_of_others(plan.others)
        if not dry_run:
            _run(runner, plan.command, plan.shown)
    if output is not None:
        emit_output(plan.as_json(), plan.images, output, is_bounded=False)
        return
    for line in (plan.manual_command,) if dry_run else plan.images:
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
    _note(plan.builder)
    _tell_of_others(plan.others)
    for image, command in plan.commands.items():
        if not dry_run:
            try:
                _run(runner, command, command)
            except ToolError:
                if plan.builder.has(image, runner):
                    raise
                raise _not_built(image, package, overlay, registry) from None
        if output is None:
            emit(shlex.join(command) if dry_run else image)
    if lock and not dry_run:
        from packager.cli.lock import lock_images

        lock_images(ctx, package, registry, overlay, kubectl)
    if output is not None:
        emit_output(plan.as_json(), plan.commands, output, is_bounded=False)


def _note(builder: Builder) -> None:
    """Print which builders were skipped, and why."""
    for reason in builder.rejected:
        say(f"note: {reason}; taking {builder.program}")


def _tell_of_others(images: Mapping[str, str]) -> None:
    """Print the images that are not built from the package."""
    for image, workload in images.items():
        say(f"note: {image}, which {workload} uses, is not the package's image: build and push it elsewhere")


def _run(runner: Runner, command: Sequence[str], shown: Sequence[str]) -> None:
    say(f"+ {shlex.join(shown)}")
    returncode = runner.run_in_terminal(command, stdout_to_stderr=True, quiet=is_quiet())
    if returncode != 0:
        raise ToolError(f"{command[0]} {command[1]} ended with exit code {returncode}")


def _not_built(image: str, package: Path, overlay: str | None, registry: str | None) -> ToolError:
    """Return the error about an image that cannot be pushed because this machine does not have it."""
    options = [word for pair in (("--overlay", overlay), ("--registry", registry)) if pair[1] for word in pair if word]
    return ToolError(
        f"{image} is not on this machine", hint=shlex.join(["mlpack", "image", "build", argument(package), *options])
    )
