"""`mlpack bundle` and `mlpack load`: write a package with its images into one file, and store it in a registry."""

from pathlib import Path
from typing import Annotated

import typer

from packager.base.values import as_plain
from packager.cli.arguments import Program, source_date_epoch
from packager.cli.console import Output, emit_output, progress, say
from packager.cli.host import host
from packager.cli.registry_arguments import RegistryOptions, SignatureOptions
from packager.configure.configure import Answers, check_answers
from packager.publish.bundle import bundle as write_bundle
from packager.publish.load import LoadRequest
from packager.publish.load import load as load_bundle


def bundle(
    signatures: SignatureOptions,
    at: RegistryOptions,
    package: Annotated[
        str, typer.Argument(metavar="PACKAGE", help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG.")
    ],
    destination: Annotated[
        Path | None, typer.Option("--destination", "-d", metavar="FILE", help="The bundle; by default NAME.bundle.tar.")
    ] = None,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Whether the images are in the bundle.")] = True,
    image_archive: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="An archive with an image that is in no registry, of podman save --format oci-archive, buildah push … "
            "oci-archive:FILE or docker save. Repeatable.",
        ),
    ] = [],
    no_sources: Annotated[
        bool, typer.Option("--no-sources", help="Leave out the files that pods fetch: the `sources` of the spec.")
    ] = False,
    secret: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A variable of yours, such as HF_TOKEN, that may be sent to the servers of sources. Repeatable.",
        ),
    ] = [],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing bundle.")] = False,
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Write a package with its images and signatures into one file, for a site without a network; print its path.

    The files that its pods fetch are in it, too. The file is an OCI image layout in a tar. The same content gives the
    same bytes. `mlpack load` stores it in a registry.
    """
    bundled = write_bundle(
        package,
        at.access(),
        destination=destination,
        with_images=images,
        force=force,
        archives=tuple(image_archive),
        created=source_date_epoch(),
        kubectl=kubectl,
        trust=signatures.trust(),
        with_sources=not no_sources,
        secrets=tuple(secret),
        tell=say,
        progress=progress,
        runner=host().runner,
    )
    emit_output(bundled.as_json(), [bundled.path], output)
    if output is None:
        say(*(f"{root.name} {root.blob.digest}" for root in bundled.roots))
        say(f"next: mlpack load {bundled.path} --registry HOST")


def load(
    signatures: SignatureOptions,
    at: RegistryOptions,
    bundle: Annotated[Path, typer.Argument(metavar="FILE", help="The file that `mlpack bundle` has written.")],
    registry: Annotated[str, typer.Option(metavar="HOST", help="The registry to store it in: HOST, or HOST/PATH.")],
    force: Annotated[bool, typer.Option("--force", help="Move tags of something else, and replace outputs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, and send nothing.")] = False,
    extract: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also unpack the package into this folder, configured for the registry, and write the files that its "
            "pods fetch there.",
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Check a bundle and store it in a registry; print the references of the package and its images.

    Nothing changes its digest, so signatures stay valid. What the registry has already is not sent again. A required
    signature is checked in the file, before anything is sent.
    """
    request = LoadRequest(bundle, registry, force, dry_run, signatures.trust(), extract)
    check_answers(Answers(registry=registry))
    loaded = load_bundle(request, at.access(), progress=progress, tell=say)
    references = [manifest.reference for manifest in loaded.manifests]
    emit_output(as_plain(loaded), references, output)
    if output is not None:
        return
    for manifest in loaded.manifests:
        if manifest.source:
            say(f"{manifest.source} is {manifest.reference}")
    if dry_run:
        say("dry run: the bundle is valid, and nothing was sent")
    elif extract is None:
        say(f"next: mlpack configure PACKAGE --registry {registry}")
    for path in loaded.packages:
        for variable, files in loaded.sources.items():
            say(f"next: mlpack workspace push {path} {files} --folder {variable}")
        say(f"next: mlpack doctor {path}")
