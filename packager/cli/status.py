"""`mlpack status`: shows the state of a deployed package and the reasons for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UsageError
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import ClusterOptions, OverlayOption, PackageToRead, open_target, with_cluster
from packager.cli.console import emit, emit_output, emit_table, say
from packager.cli.plots import print_curves

if TYPE_CHECKING:
    from packager.app.status import Status
    from packager.app.target import Target

_EXAMPLE = '{"step": 10, "loss": 2.5}'


@with_cluster
def status(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Continue until it has ended or is serving.")] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the numbers in its log: lines of JSON with a step.")
    ] = False,
    output: Output = None,
) -> None:
    """Show the state of a deployed package, and the reasons.

    Exit code 0 while all is well; 7 when it has failed, cannot run, or does not exist.
    """
    from packager.app import status as use_case
    from packager.cli.watching import report_end, warn_unseen, watch_and_show
    from packager.kubernetes.verdict import Phase

    if watch and plot:
        raise UsageError("--watch and --plot cannot be combined")
    to_cluster = at.client(ctx)
    with open_target(ctx, package, overlay, to_cluster) as target:
        if watch and output is None:
            for one, verdict in watch_and_show(target):
                report_end(one, verdict)
            return
        if watch and output is not None:
            for update in target.follow_all():
                answer = use_case.status_from(target.per_workload[update.index], update.snapshot, update.verdict)
                emit_output(answer.as_json(), [answer.workload], output)
            answers = [answer]
        else:
            answers = [use_case.status(one, with_curves=plot) for one in target.per_workload]
            if output is not None:
                emit_output(use_case.as_json(answers), [answer.workload for answer in answers], output)
            for one, answer in zip(target.per_workload, answers if output is None else (), strict=False):
                _show(one, answer)
    for unseen in dict.fromkeys(answer.unseen for answer in answers):
        warn_unseen(unseen)
    if any(answer.verdict.phase in (Phase.FAILED, Phase.STUCK, Phase.ABSENT) for answer in answers):
        raise typer.Exit(7)


def _show(target: Target, status: Status) -> None:
    from packager.app.status import with_logs
    from packager.cli.progress import lines, rows

    emit(f"{status.workload}  {status.verdict.phase}: {status.verdict.summary}")
    if status.version:
        emit(f"version {status.version}")
    if status.note:
        emit(f"note: {status.note}")
    if status.pods:
        emit_table([("POD", "STATE", "RESTARTS"), *rows(status.pods)], gap="  ")
    for item in status.beside:
        emit(f"{item.shown}  {item.state}")
    for finding in status.verdict.findings:
        for line in lines(with_logs(target, finding)):
            emit(line)
    if status.curves:
        print_curves(status.curves)
    elif status.curves is not None:
        say(f"no numbers in the log of {status.workload}: expected lines of JSON with a step, such as {_EXAMPLE}")
