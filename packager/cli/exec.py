"""`mlpack exec`: runs a command in a pod of a deployed package."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from packager.cli.cluster_arguments import (
    ClusterOptions,
    OneWorkload,
    OverlayOption,
    PackageToRead,
    Worker,
    open_target,
    with_cluster,
)
from packager.cli.console import say


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command(name="exec")(run)


@with_cluster
def run(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackageToRead,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    overlay: OverlayOption = None,
    workload: OneWorkload = None,
    worker: Worker = None,
) -> None:
    """Run a command in the main pod (the launcher, or the only pod), and end with its exit code."""
    from packager.app.exec import command_in_pod

    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    to_cluster = at.client(ctx)
    with open_target(ctx, package, overlay, to_cluster, workload) as target:
        arguments = command_in_pod(target, command, worker=worker, terminal=has_terminal)
        code = target.kubectl.run_in_terminal(*arguments)
        if code < 0:
            say(f"kubectl was ended by {signal.Signals(-code).name}")
        raise typer.Exit(code if code >= 0 else 128 - code)
