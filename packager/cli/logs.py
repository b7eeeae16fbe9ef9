"""`mlpack logs`: prints the complete logs of a deployed package."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.base.errors import UsageError
from packager.cli.cluster_arguments import (
    ClusterOptions,
    OneWorkload,
    OverlayOption,
    PackageToRead,
    Worker,
    open_target,
    with_cluster,
)


@with_cluster
def logs(
    ctx: typer.Context,
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
) -> None:
    """Print the log of the main pod (the launcher, or the only pod) from its first line.

    Of a Job with an index for each pod, the logs of all pods.
    """
    from packager.app import logs as use_case
    from packager.cli.printing import print_parts

    if worker is not None and all_pods:
        raise UsageError("--worker and --all cannot be combined")
    to_cluster = at.client(ctx)
    with open_target(ctx, package, overlay, to_cluster, workload) as target:
        feed = use_case.Feed(target, worker, all_pods=all_pods, is_following=follow)
        print_parts(use_case.follow(feed) if follow else use_case.logs(feed))
