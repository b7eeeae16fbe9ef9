"""`mlpack image build|push`: the package's image, by the tools that this machine has."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.arguments import RegistryHost  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import PackagePath, Program  # noqa: TC001 - the same
from packager.cli.console import emit, say
from packager.errors import ToolError

if TYPE_CHECKING:
    from packager.image import Builder

Builders = Annotated[
    str | None,
    typer.Option("--with", metavar="PROGRAM", help="docker, podman or buildah; else what works.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands; run none.")]
Extra = Annotated[
    list[str], typer.Argument(metavar="-- ARGUMENTS", help="More for the program, after `--`.", show_default=False)
]
OneOverlay = Annotated[
    str | None,
    typer.Option("--overlay", metavar="NAME", help="The image of this overlay; else of all.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Build or push the package's image, with docker, podman or buildah.", no_args_is_help=True)
    group.command()(build)
    group.command()(push)
    app.add_typer(group, name="image")


def build(
    package: PackagePath,
    arguments: Extra = [],  # noqa: B006 - typer copies it
    overlay: OneOverlay = None,
    registry: RegistryHost = None,
    program: Builders = None,
    kubectl: Program = "kubectl",
    dry_run: DryRun = False,
) -> None:
    """Build the image from the package's Dockerfile, called as the package calls it. Prints its name."""
    from packager.cli.target import chosen
    from packager.image import dockerfile, names
    from packager.package import opened

    with opened(package) as found:
        dockerfile(found)
        images = names(found, chosen(found, overlay), registry=registry, kubectl=kubectl)
        command = _builder(program).build(images, found.folder, arguments)
        if dry_run:
            emit(shlex.join(command))
            return
        _run(command)
    for image in images:
        emit(image)


def push(
    package: PackagePath,
    arguments: Extra = [],  # noqa: B006
    overlay: OneOverlay = None,
    registry: RegistryHost = None,
    program: Builders = None,
    kubectl: Program = "kubectl",
    dry_run: DryRun = False,
) -> None:
    """Push the image to the registry that the package pulls it from. Prints its name."""
    from packager.cli.target import chosen
    from packager.image import check_pushable, names
    from packager.package import opened

    with opened(package) as found:
        images = names(found, chosen(found, overlay), registry=registry, kubectl=kubectl)
    for image in images:
        check_pushable(image)
    builder = _builder(program)
    for image in images:
        command = builder.push(image, arguments)
        if dry_run:
            emit(shlex.join(command))
            continue
        _run(command)
        emit(image)


def _builder(asked: str | None) -> Builder:
    from packager.image import builder

    found = builder(asked)
    for reason in found.passed_over:
        say(f"note: {reason}; taking {found.program}")
    return found


def _run(command: list[str]) -> None:
    from packager import process

    say(f"+ {shlex.join(command)}")
    returncode = process.attached(command, stdout_to_stderr=True)
    if returncode != 0:
        raise ToolError(f"{command[0]} {command[1]} ended with exit code {returncode}")
