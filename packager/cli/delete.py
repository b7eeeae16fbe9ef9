"""`mlpack delete`: a package out of a cluster, all of it."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.cluster_arguments import (
    Context,
    Kubeconfig,
    Namespace,
    Overlay,
    PackagePath,
    Program,
    Verbose,
    reach,
    seconds,
)
from packager.cli.console import say


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(delete)


def delete(
    package: PackagePath,
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    keep_results: Annotated[
        bool, typer.Option("--keep-results", help="Leave the claims, and what is on them.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until all of it is gone.")] = True,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most.")] = "5m",
    verbose: Verbose = False,
) -> None:
    """Delete what the package has applied, and wait until it is gone. What is gone already is no error."""
    from packager.cli.target import target
    from packager.cluster.deploy import remove_all

    longest = seconds(timeout)
    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as of:
        kept = remove_all(of.kubectl, of.manifests, keep_claims=keep_results, timeout=longest if wait else None)
        for name in kept:
            say(f"kept: {name}")
        say(f"{of.shown} {'is gone' if wait else 'is being deleted'}")
