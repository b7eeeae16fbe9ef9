"""`mlpack results`: what a deployed package has put in OUTPUT_DIR, into a folder here."""

from __future__ import annotations

from pathlib import Path
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
from packager.cli.console import say
from packager.errors import ClusterError, ToolError, UsageError, reason

if TYPE_CHECKING:
    from packager.cli.target import Target
    from packager.cluster.objects import Object
    from packager.cluster.results import Output, Place
    from packager.cluster.snapshot import Snapshot


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made when it is missing.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(results)


def results(
    package: PackagePath,
    folder: Folder,
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    worker: Worker = None,
    verbose: Verbose = False,
) -> None:
    """Copy OUTPUT_DIR into a folder here, while the package runs or after it, from worker 0 when there are several.

    Files of the same name are replaced; nothing is removed.
    """
    from packager.cli.target import target
    from packager.cluster.results import output_of, reader

    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as of:
        snapshot = of.observe(events=False)
        template = of.manifests.engine.pod_template(snapshot.workload if snapshot else of.manifests.workload)
        output = output_of(template, of.manifests.objects)
        if snapshot is not None and (place := _running(of, snapshot, output, worker)):
            _copy(of, place, folder)
            return
        if not output.outlives_pods:
            raise _gone(of, snapshot, output)
        say(f"no pod runs any more: another one reads {output.storage}")
        with reader(of.kubectl, of.manifests.name, template, output) as pod:
            from packager.cluster.results import Place

            _copy(of, Place(pod, "reader", output.path), folder)


def _running(of: Target, snapshot: Snapshot, output: Output, worker: int | None) -> Place | None:
    from packager.cluster.objects import is_running, name
    from packager.cluster.results import Place

    engine = of.manifests.engine
    workers = engine.workers(snapshot.pods)
    if worker is not None and workers and worker >= len(workers):
        raise UsageError(f"there is no worker {worker}", hint=f"there are 0 to {len(workers) - 1}")
    main = engine.main(snapshot.pods)
    candidates: list[Object] = workers or ([main] if main and not of.manifests.engine.has_workers else [])
    if worker is not None:
        candidates = candidates[worker : worker + 1]
    elif not output.outlives_pods:
        candidates = candidates[:1]
    for pod in candidates:
        if is_running(pod):
            return Place(name(pod), str(output.container["name"]), output.path)
    return None


def _copy(of: Target, place: Place, folder: Path) -> None:
    from packager.cluster.results import copy

    try:
        received = copy(of.kubectl, place, folder)
    except OSError as error:
        raise ToolError(f"{folder} cannot be written: {reason(error)}") from None
    for path in received.skipped:
        say(f"{path} is no plain file, and was left out")
    count = f"{received.files} file{'s' if received.files != 1 else ''}"
    say(f"{count}, {received.size:,} bytes, from {place.pod}:{place.path} in {folder}")


def _gone(of: Target, snapshot: Snapshot | None, output: Output) -> ClusterError:
    if snapshot is None:
        return ClusterError(
            f"{of.shown} is not there, and what it wrote to {output.storage} went with its pods",
            hint=of.command("deploy"),
        )
    if of.manifests.engine.ending(snapshot) is None:
        return ClusterError(f"{of.shown} does not run yet", hint=of.command("status"))
    return ClusterError(
        f"{of.shown} has ended, and its results went with its pods: OUTPUT_DIR is on {output.storage}",
        hint="copy them while it runs, or give it a storage that stays: mlpack configure --storage",
    )
