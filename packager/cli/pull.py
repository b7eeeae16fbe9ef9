"""`mlpack pull` and `mlpack inspect`: pull a package from a registry, and describe one without pulling it.

Tests: cli/test_push.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from packager.base import yamlio
from packager.cli.arguments import PackageOrBundle, Program
from packager.cli.console import Output, emit, emit_data, emit_json, emit_output, progress, say
from packager.cli.host import host
from packager.cli.registry_arguments import RegistryOptions, SignatureOptions
from packager.publish import inspect as use_case
from packager.publish.inspect import Inspected, is_locked
from packager.publish.pull import pull as pull_package
from packager.publish.reference import parse
from packager.publish.registry import Repository


def pull(
    signatures: SignatureOptions,
    at: RegistryOptions,
    reference: Annotated[
        str,
        typer.Argument(metavar="REFERENCE", help="A package in a registry: oci://HOST/REPOSITORY:TAG, or @sha256:…"),
    ],
    destination: Annotated[Path, typer.Option("-d", "--destination", metavar="DIR", help="Where to write.")] = Path(),
    extract: Annotated[bool, typer.Option("--extract", help="Write the package as a folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    output: Output = None,
) -> None:
    """Pull a package from a registry, and print its path: the same bytes that were pushed.

    The digests are checked, and the files against the inventory; `mlpack verify` checks more. The signatures are
    written to a file beside it, so `mlpack verify` can check them without the registry. Exit code 5 if something is
    wrong, or a required signature is missing: then nothing is written.
    """
    name = parse(reference)
    trust = signatures.trust()
    with Repository(name, at.access()) as registry:
        pulled = pull_package(
            registry, name, destination, extract=extract, force=force, trust=trust, progress=progress, tell=say
        )
    emit_output(pulled.as_json(), [pulled.path], output)
    say(pulled.reference.pinned(pulled.digest))
    say(" ".join(text for text in ("package", pulled.package, pulled.version, pulled.package_digest) if text))
    say(*(f"edited: {path}" for path in pulled.edited))


def inspect(
    signatures: SignatureOptions,
    at: RegistryOptions,
    package: PackageOrBundle,
    output: Annotated[
        Literal["text", "json", "yaml", "name", "images", "cyclonedx"],
        typer.Option(
            "-o",
            "--output",
            help="For people; as JSON or YAML; the name with the digest; the images alone; or the files and images as "
            "a bill of materials (SBOM).",
        ),
    ] = "text",
    kubectl: Program = "kubectl",
) -> None:
    """Describe a package: digests, overlays, images, edits, files, signatures; of one in a registry, without its layer.

    Of a bundle, everything is checked against its digest, and the images in it are listed with their sizes.
    """
    trust = signatures.trust()
    inspected = use_case.inspect(
        package, at.access(), Path(package), kubectl, host().runner, trust, progress=progress, tell=say
    )
    match output:
        case "json":
            emit_json(inspected.as_json())
        case "yaml":
            emit_data(yamlio.dump([inspected.as_json()]))
        case "cyclonedx":
            emit_json(use_case.bill_of_materials(inspected.facts))
        case "name":
            emit(inspected.name)
        case "images":
            emit(*inspected.facts.images)
        case _:
            emit(*(f"{name + ':':16}{text}" for name, text in _rows(inspected)))
            if inspected.files is None:
                say("the files are not listed: mlpack pull shows them")


def _rows(inspected: Inspected) -> Iterator[tuple[str, str]]:
    """Yield each fact about a package with its name."""
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
    yield from (row for row in rows if row[1])
    for image in facts.images:
        yield "image", f"{image} ({'locked' if is_locked(image) else 'not locked'})"
    if bundle := inspected.bundle:
        for bundled in bundle.images:
            yield "bundled", f"{bundled.image} {bundled.digest}, {bundled.size:,} bytes"
        for root in bundle.sources:
            yield "sources", f"{root.name} {root.blob.digest}"
    yield from (("edited", path) for path in facts.edited)
    if inspected.signatures is not None:
        yield from (("signature", str(signature)) for signature in inspected.signatures or ("none",))
    yield from (("file", path) for path in inspected.files or ())
