"""`mlpack inspect`: describes a package without pulling it.

Tests: cli/test_push.py.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.cluster_arguments import Program  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit, emit_data, emit_json, progress, say
from packager.cli.registry_arguments import PackageOrBundle, RegistryOptions, with_registry
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from packager.publish.inspect import Inspected
    from packager.publish.load import BundleContents


class InspectFormat(StrEnum):
    """The forms in which a description is printed."""

    text = "text"
    json = "json"
    yaml = "yaml"
    name = "name"
    images = "images"
    cyclonedx = "cyclonedx"


@with_registry
@with_signatures
def inspect(
    ctx: typer.Context,
    at: RegistryOptions,
    signatures: SignatureOptions,
    package: PackageOrBundle,
    output: Annotated[
        InspectFormat,
        typer.Option(
            "-o",
            "--output",
            help="For people; as JSON or YAML; the name with the digest; the images alone; or the files and images as "
            "a bill of materials (SBOM).",
        ),
    ] = InspectFormat.text,
    kubectl: Program = "kubectl",
) -> None:
    """Describe a package: digests, overlays, images, edits, files, signatures; of one in a registry, without its layer.

    Of a bundle, everything is checked against its digest, and the images in it are listed with their sizes.
    """
    from packager.base import yamlio
    from packager.cli.host import host
    from packager.publish import inspect as stage

    trust = signatures.trust()
    inspected = stage.inspect(
        package, at.access(ctx), Path(package), kubectl, host(ctx).runner, trust, progress=progress, tell=say
    )
    match output:
        case InspectFormat.json:
            emit_json(inspected.as_json(), is_bounded=False)
        case InspectFormat.yaml:
            emit_data(yamlio.dump([inspected.as_json()]))
        case InspectFormat.name:
            emit(inspected.name)
        case InspectFormat.images:
            for image in inspected.facts.images:
                emit(image)
        case InspectFormat.cyclonedx:
            emit_json(stage.bill_of_materials(inspected), is_bounded=False)
        case _:
            _show(inspected)


def _show(inspected: Inspected) -> None:
    from packager.publish.inspect import is_locked

    facts = inspected.facts
    rows = [
        ("package", facts.package),
        ("version", facts.version or ""),
        ("package digest", facts.digest),
        ("reference", "" if inspected.digest is None else inspected.name),
        ("size", "" if inspected.size is None else f"{inspected.size:,} bytes"),
        ("created", inspected.created or ""),
        ("overlays", ", ".join(facts.overlays)),
        ("options", ", ".join(inspected.options)),
    ]
    for name, text in rows:
        if text:
            emit(f"{name + ':':16}{text}")
    for image in facts.images:
        emit(f"{'image:':16}{image} ({'locked' if is_locked(image) else 'not locked'})")
    if inspected.bundle is not None:
        _show_bundle(inspected.bundle)
    for path in facts.edited:
        emit(f"{'edited:':16}{path}")
    for signature in inspected.signatures or ():
        emit(f"{'signature:':16}{signature}")
    if inspected.signatures == ():
        emit(f"{'signature:':16}none")
    for path in inspected.files or ():
        emit(f"{'file:':16}{path}")
    if inspected.files is None:
        say("the files are not listed: mlpack pull shows them")


def _show_bundle(bundle: BundleContents) -> None:
    """Print the images and sources in a bundle."""
    for image in bundle.images:
        emit(f"{'bundled:':16}{image.image} {image.digest}, {image.size:,} bytes")
    for root in bundle.sources:
        emit(f"{'sources:':16}{root.name} {root.blob.digest}")
