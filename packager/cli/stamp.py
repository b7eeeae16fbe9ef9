"""`mlpack stamp`: states what `mlpack verify` has proven of a package, in a file that anyone can check."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.arguments import Output, source_date_epoch
from packager.cli.cluster_arguments import Allow, PackagePath  # noqa: TC001 - typer reads the annotations
from packager.cli.console import emit_data, emit_output, say
from packager.cli.signature_arguments import password_of
from packager.cli.verify import Kubectls, KubernetesVersions, versions

if TYPE_CHECKING:
    from packager.app.stamp import WrittenStamp


def stamp(
    ctx: typer.Context,
    package: PackagePath,
    kubectl: Kubectls = ["kubectl"],  # noqa: B006 - typer copies it
    kubernetes_version: KubernetesVersions = [],  # noqa: B006
    allow: Allow = [],  # noqa: B006
    sign_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Sign the stamp with this private key.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="The file to write; by default PACKAGE.stamp.json.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing stamp.")] = False,
    output: Output = None,
) -> None:
    """Verify a package, write what was proven of it to a stamp beside it, and print the path.

    A stamp names the digest of each overlay's render, and the kubectls that give it, so anyone with one of these can
    prove it again: `mlpack verify` does. Exit code 5 if there is a problem or an edit: then no stamp is written.
    """
    from packager.app.key import signers
    from packager.app.stamp import StampRequest, write
    from packager.app.verify import Checks, allowed_words
    from packager.cli.host import host

    runner = host(ctx).runner
    checks = Checks(
        kubectls=tuple(dict.fromkeys(kubectl)),
        kubernetes=versions(kubernetes_version),
        allowed=allowed_words(allow),
        runner=runner,
    )
    seconds = source_date_epoch()
    created = runner.now() if seconds is None else datetime.fromtimestamp(seconds, UTC)
    signer = next(iter(signers([sign_key] if sign_key else [], password_of, say)), None)
    time = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    made = write(StampRequest(package, checks, time, file, signer, force))
    if output is not None:
        emit_output(made.as_json(), [str(made.path)], output)
    else:
        emit_data(str(made.path))
    _explain(made)


def _explain(made: WrittenStamp) -> None:
    for name in made.statement["predicate"]["properties"]:
        say(name)
    say(f"signed by {made.signed_by}" if made.signed_by else "not signed: its claims prove nothing to others")
