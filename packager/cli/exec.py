"""`mlpack exec`: runs a command in a pod of a deployed package."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from packager.cli.cluster_arguments import (
    Context,
    Kubeconfig,
    Namespace,
    OneWorkload,
    OverlayOption,
    PackagePath,
    Program,
    Verbose,
    Worker,
    kubectl_for,
)
from packager.cli.console import say


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command(name="exec")(run)


def run(
    ctx: typer.Context,
    package: PackagePath,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.", show_default=False)],
    overlay: OverlayOption = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    workload: OneWorkload = None,
    worker: Worker = None,
    verbose: Verbose = False,
) -> None:
    """Run a command in the main pod (the launcher, or the only pod), and end with its exit code."""
    from packager.app.execute import command_in_pod
    from packager.cli.target import open_target

    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    to_cluster = kubectl_for(ctx, kubectl, namespace, context, kubeconfig, verbose=verbose)
    with open_target(ctx, package, overlay, to_cluster, workload) as target:
        arguments = command_in_pod(target, command, worker=worker, terminal=has_terminal)
        code = target.kubectl.run_in_terminal(*arguments)
        if code < 0:
            say(f"kubectl was ended by {signal.Signals(-code).name}")
        raise typer.Exit(code if code >= 0 else 128 - code)
