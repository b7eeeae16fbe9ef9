"""`mlpack bundle`: writes a package with its images into one file."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from packager.cli.arguments import Output, source_date_epoch
from packager.cli.cluster_arguments import Program  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit, emit_output, progress, say
from packager.cli.host import host
from packager.cli.registry_arguments import PackageSource, RegistryOptions, with_registry
from packager.cli.signature_arguments import SignatureOptions, with_signatures


@with_registry
@with_signatures
def bundle(
    ctx: typer.Context,
    at: RegistryOptions,
    signatures: SignatureOptions,
    package: PackageSource,
    destination: Annotated[
        Path | None, typer.Option("--destination", "-d", metavar="FILE", help="The bundle; by default NAME.bundle.tar.")
    ] = None,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Whether the images are in the bundle.")] = True,
    no_sources: Annotated[
        bool, typer.Option("--no-sources", help="Leave out the files that pods fetch: the `sources` of the spec.")
    ] = False,
    secret: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A variable of yours, such as HF_TOKEN, that may be sent to the servers of sources. Repeatable.",
        ),
    ] = [],  # noqa: B006
    force: Annotated[bool, typer.Option("--force", help="Replace an existing bundle.")] = False,
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Write a package with its images and signatures into one file, for a site without a network; print its path.

    The files that its pods fetch are in it, too. The file is an OCI image layout in a tar. The same content gives the
    same bytes. `mlpack load` stores it in a registry.
    """
    from packager.publish.bundle import BundleRequest
    from packager.publish.bundle import bundle as write_bundle

    request = BundleRequest(
        package,
        destination,
        images,
        force,
        source_date_epoch(),
        kubectl,
        signatures.trust(),
        not no_sources,
        tuple(secret),
    )
    bundled = write_bundle(request, at.access(ctx), tell=say, progress=progress, runner=host(ctx).runner)
    if output is not None:
        emit_output(bundled.as_json(), [str(bundled.path)], output, is_bounded=False)
        return
    emit(str(bundled.path))
    for root in bundled.roots:
        say(f"{root.name} {root.blob.digest}")
    say(f"next: mlpack load {bundled.path} --registry HOST")
