"""`mlpack load`: stores a bundle in a registry. Tests: cli/test_bundle.py."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from packager.base.values import as_plain
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit, emit_output, progress, say
from packager.cli.registry_arguments import RegistryOptions, with_registry
from packager.cli.signature_arguments import SignatureOptions, with_signatures


@with_registry
@with_signatures
def load(
    ctx: typer.Context,
    at: RegistryOptions,
    signatures: SignatureOptions,
    bundle: Annotated[Path, typer.Argument(metavar="FILE", help="The file that `mlpack bundle` has written.")],
    registry: Annotated[
        str, typer.Option(metavar="HOST", help="The registry that everything is stored in: a host, or HOST/PATH.")
    ],
    force: Annotated[
        bool,
        typer.Option("--force", help="Also move tags that name something else, and replace outputs."),
    ] = False,
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
    from packager.configure.configure import Answers, check_answers
    from packager.publish.load import LoadRequest
    from packager.publish.load import load as load_bundle

    request = LoadRequest(bundle, registry, force, dry_run, signatures.trust(), extract)
    check_answers(Answers(registry=registry))
    loaded = load_bundle(request, at.access(ctx), progress=progress, tell=say)
    if output is not None:
        references = [manifest.reference for manifest in loaded.manifests]
        emit_output(as_plain(loaded), references, output, is_bounded=False)
        return
    for manifest in loaded.manifests:
        emit(manifest.reference)
        if manifest.source:
            say(f"{manifest.source} is {manifest.reference}")
    if loaded.signatures:
        say(f"signatures and other manifests about these: {loaded.signatures}")
    if dry_run:
        say("dry run: the bundle is valid, and nothing was sent")
    elif extract is None:
        say(f"next: mlpack configure PACKAGE --registry {registry}")
    for path in loaded.packages:
        for variable, files in loaded.sources.items():
            say(f"next: mlpack workspace push {path} {files} --folder {variable}")
        say(f"next: mlpack doctor {path}")
