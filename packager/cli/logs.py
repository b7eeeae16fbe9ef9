"""`mlpack logs`: what a deployed package has written, all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
from packager.cli.console import emit, say
from packager.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from packager.cli.target import Target
    from packager.cluster.logs import LogReader
    from packager.cluster.objects import Object
    from packager.cluster.snapshot import Snapshot


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(logs)


def logs(
    package: PackagePath,
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it has ended.")] = False,
    worker: Worker = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every pod's, each line with its pod before it.")] = False,
    verbose: Verbose = False,
) -> None:
    """Print the log of the pod that leads, from its first line: the launcher's, or the only pod's."""
    from packager.cli.target import target

    if worker is not None and everyone:
        raise UsageError("--worker and --all contradict each other")
    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as of:
        printer = _Printer(of, worker, everyone=everyone)
        if not follow:
            snapshot = of.observe(events=False)
            if snapshot is None:
                raise ClusterError(f"{of.shown} is not there", hint=of.command("deploy"))
            if not printer.read(snapshot):
                raise ClusterError(f"{of.shown} has written nothing yet", hint=of.command("status"))
            return
        for update in of.follow():
            if update.silence:
                printer.lose()
            elif update.snapshot is None:
                raise ClusterError(f"{of.shown}: {update.verdict.summary}", hint=of.command("deploy"))
            else:
                is_last = update.is_last and not update.verdict.phase.is_over
                if not printer.read(update.snapshot) and is_last:
                    raise ClusterError(f"{of.shown} cannot run: {update.verdict.summary}", hint=of.command("status"))


class _Printer:
    """Prints what is new in the logs of the pods that are meant."""

    def __init__(self, of: Target, worker: int | None, *, everyone: bool) -> None:
        self._of = of
        self._worker = worker
        self._everyone = everyone
        self._readers: dict[str, LogReader] = {}
        self._has_waited = False
        self._is_lost = False
        self._has_written = False

    def read(self, snapshot: Snapshot) -> bool:
        """Print what is new, and return whether there has been anything so far."""
        from packager.cluster.logs import LogReader
        from packager.cluster.objects import name, uid

        if self._is_lost:
            say("the cluster answers again")
            self._is_lost = False
        pods = self._pods(snapshot)
        if not pods and not self._has_waited:
            say(f"waiting for the {'pods' if self._everyone else 'pod'} of {self._of.shown}")
            self._has_waited = True
        for pod in pods:
            reader = self._readers.setdefault(uid(pod), LogReader(self._of.kubectl, pod))
            for line in reader.read(pod):
                emit(f"[{name(pod)}] {line}" if self._everyone else line)
                self._has_written = True
        return self._has_written

    def lose(self) -> None:
        """Say once that the cluster does not answer."""
        if not self._is_lost:
            say("the cluster does not answer; the log goes on when it does")
        self._is_lost = True

    def _pods(self, snapshot: Snapshot) -> list[Object]:
        from packager.cluster.observe import pods_of

        engine = self._of.manifests.engine
        if self._everyone:
            return pods_of(engine, snapshot.pods)
        if self._worker is not None:
            workers = engine.workers(snapshot.pods)
            if self._worker >= len(workers):
                if workers:
                    raise UsageError(f"there is no worker {self._worker}", hint=f"there are 0 to {len(workers) - 1}")
                return []
            return [workers[self._worker]]
        main = engine.main(snapshot.pods)
        return [main] if main else []
