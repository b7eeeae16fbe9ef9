"""`mlpack exec`: a command in a pod of a deployed package."""

from __future__ import annotations

import sys
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
    Worker,
    reach,
)
from packager.errors import ClusterError, UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command(name="exec")(run)


def run(
    package: PackagePath,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.", show_default=False)],
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    worker: Worker = None,
    verbose: Verbose = False,
) -> None:
    """Run a command in the pod that leads (the launcher, or the only pod), and end with its exit code."""
    from packager.cli.target import target
    from packager.cluster.objects import is_running, main_container, name
    from packager.process import attached

    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as of:
        snapshot = of.observe(events=False)
        if snapshot is None:
            raise ClusterError(f"{of.shown} is not there", hint=of.command("deploy"))
        engine = of.manifests.engine
        workers = engine.workers(snapshot.pods)
        if worker is not None and not 0 <= worker < len(workers):
            there = f"there are 0 to {len(workers) - 1}" if workers else "there are none now"
            raise UsageError(f"{of.shown} has no worker {worker}", hint=there)
        pod = engine.main(snapshot.pods) if worker is None else workers[worker]
        if pod is None or not is_running(pod):
            raise ClusterError(f"no pod of {of.shown} runs that could take a command", hint=of.command("status"))
        terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        where = ["exec", "--stdin", *terminal, name(pod), f"--container={main_container(pod)}"]
        argv = of.kubectl.argv(*where, "--", *command)
        of.kubectl.show(argv)
        raise typer.Exit(attached(argv))
