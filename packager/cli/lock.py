"""`mlpack lock`: writes the digests of a package's images into the package."""

from pathlib import Path
from typing import Annotated

import typer

from packager.cli.arguments import OnlyOverlay, PackagePath, Program
from packager.cli.console import Output, emit_data, emit_output, say
from packager.cli.host import host
from packager.cli.registry_arguments import RegistryOptions
from packager.configure import configure
from packager.publish import lock as use_case


def lock(
    at: RegistryOptions,
    package: PackagePath,
    overlay: OnlyOverlay = None,
    registry: Annotated[
        str | None, typer.Option(metavar="HOST", help="Where the images are pulled from; it is set in the package.")
    ] = None,
    platform: Annotated[
        str | None, typer.Option(metavar="OS/ARCH", help="Lock the image of this platform, instead of all of them.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; exit code 5 if an image is not locked, or its tag has moved."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the digests.")] = False,
    destination: Annotated[
        Path | None, typer.Option("--destination", "-d", metavar="FILE", help="The new tarball.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing new tarball.")] = False,
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Write the digests of a package's images into the package, so that a tag that moves changes nothing.

    The digests come from the registry of each image. A folder is edited in place; for a tarball, a new one is written.
    Prints the paths of the written files.
    """
    with use_case.prepared(
        package,
        at.access(),
        host().runner,
        overlay=overlay,
        registry=registry,
        platform=platform,
        destination=destination,
        kubectl=kubectl,
    ) as locked:
        names = [f"{item.image}@{item.digest}" for item in locked.images]
        emit_output(locked.as_json(), names, output, ())
        say(*(f"{image.overlay}: {image.image} is {image.digest}" for image in locked.images))
        if check:
            locked.check()
        elif not dry_run:
            for path in configure.write(locked.edits, destination=destination, force=force):
                if output is None:
                    emit_data(path)
            if not locked.edits.changed:
                say("nothing to change")
