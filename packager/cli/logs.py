"""`mlpack logs`: prints the complete logs of a deployed package."""

from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.cli.arguments import OverlayOption, PackageToRead
from packager.cli.cluster_arguments import ClusterOptions, OneWorkload, Worker, open_target
from packager.cli.printing import print_parts
from packager.cluster import logs as use_case


def logs(
    at: ClusterOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Continue until it has ended, with the log of each attempt.")
    ] = False,
    workload: OneWorkload = None,
    worker: Worker = None,
    all_pods: Annotated[
        bool, typer.Option("--all", help="The logs of all pods, each line with the pod's name.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=1_000_000, help="Only the last lines of each pod.")
    ] = None,
) -> None:
    """Print the log of the main pod (the launcher, or the only pod) from its first line.

    Of a Job with an index for each pod, the logs of all pods. `kubectl logs POD` has options for a part by
    its time, for the log before a restart, and for other containers.
    """
    if worker is not None and all_pods:
        raise UsageError("--worker and --all cannot be combined")
    with open_target(package, overlay, at.client(), workload=workload) as target:
        feed = use_case.Feed(target, worker=worker, all_pods=all_pods, tail=tail)
        print_parts(use_case.follow(feed) if follow else use_case.logs(feed))
