"""`mlpack pull`: pulls a package from a registry.

Tests: cli/test_push.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit_data, emit_output, progress, say
from packager.cli.registry_arguments import RegistryOptions, RemotePackage, with_registry
from packager.cli.signature_arguments import SignatureOptions, with_signatures


@with_registry
@with_signatures
def pull(
    ctx: typer.Context,
    at: RegistryOptions,
    signatures: SignatureOptions,
    reference: RemotePackage,
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
    from packager.publish.pull import PullRequest
    from packager.publish.pull import pull as pull_package
    from packager.publish.reference import parse

    request = PullRequest(parse(reference), destination, extract=extract, force=force, trust=signatures.trust())
    pulled = pull_package(request, at.access(ctx), progress=progress, tell=say)
    if output is not None:
        emit_output(pulled.as_json(), [str(pulled.path)], output)
    else:
        emit_data(str(pulled.path))
    say(pulled.reference.pinned(pulled.digest))
    say(" ".join(text for text in ("package", pulled.package, pulled.version, pulled.package_digest) if text))
    for path in pulled.edited:
        say(f"edited: {path}")
