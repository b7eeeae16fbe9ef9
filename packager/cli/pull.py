"""`mlpack pull`: pulls a package from a registry.

Tests: cli/test_push.py.
"""

from pathlib import Path
from typing import Annotated

import typer

from packager.cli.console import Output, emit_output, progress, say
from packager.cli.registry_arguments import RegistryOptions, SignatureOptions
from packager.publish.pull import pull as pull_package
from packager.publish.reference import parse
from packager.publish.registry import Repository


def pull(
    signatures: SignatureOptions,
    at: RegistryOptions,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="The package in a registry: oci://HOST/REPOSITORY:TAG, or @sha256:… for :TAG."
        ),
    ],
    destination: Annotated[
        Path, typer.Option("-d", "--destination", metavar="DIR", help="The folder to write to.")
    ] = Path(),
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
