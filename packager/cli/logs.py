"""`mlpack logs`: prints the complete logs of a deployed package."""

from typing import Annotated

import typer

from packager.base import units
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
    container: Annotated[
        str | None, typer.Option("-c", "--container", help="A container; by default the main one of each pod.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=1_000_000, help="Only the last lines of each pod.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only lines since 10m, 2h or 3d ago, or 2026-11-22T10:00:00Z.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="Only the log before the last restart of the container.")
    ] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
) -> None:
    """Print the log of the main pod (the launcher, or the only pod) from its first line.

    Of a Job with an index for each pod, the logs of all pods.
    """
    if worker is not None and all_pods:
        raise UsageError("--worker and --all cannot be combined")
    if previous and follow:
        raise UsageError("--previous and --follow cannot be combined")
    client = at.client()
    try:
        begin = None if since is None else units.moment(since, client.runner.now())
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    part = use_case.LogRange(tail, begin, timestamps, previous)
    with open_target(package, overlay, client, workload=workload) as target:
        feed = use_case.Feed(target, use_case.PodSelection(worker, all_pods, container), part)
        print_parts(use_case.follow(feed) if follow else use_case.logs(feed))
