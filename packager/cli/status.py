"""`mlpack status`: shows the state of a deployed package and the reasons for it."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UsageError
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import ClusterOptions, OverlayOption, open_target, with_cluster
from packager.cli.console import OutputFormat, emit, emit_output, emit_table, say
from packager.cli.history import deployed_rows
from packager.cli.plots import print_curves

if TYPE_CHECKING:
    from packager.cluster.status import Status
    from packager.cluster.target import Target
    from packager.kubernetes.kubectl.client import Kubectl

_EXAMPLE = '{"step": 10, "loss": 2.5}'


@with_cluster
def status(
    ctx: typer.Context,
    at: ClusterOptions,
    package: Annotated[
        Path | None,
        typer.Argument(
            metavar="PACKAGE",
            help="A package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG. Without it, all deployed ones.",
        ),
    ] = None,
    overlay: OverlayOption = None,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Continue until it has ended or is serving.")] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the numbers in its log: lines of JSON with a step.")
    ] = False,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Without a package: look in every namespace.")
    ] = False,
    output: Output = None,
) -> None:
    """Show the state of a deployed package, and the reasons; without a package, list what is deployed.

    Exit code 0 while all is well; 7 when it has failed, cannot run, or does not exist.
    """
    from packager.cli.watching import report_end, warn_unseen, watch_and_record
    from packager.kubernetes.verdict import Phase

    if watch and plot:
        raise UsageError("--watch and --plot cannot be combined")
    to_cluster = at.client(ctx)
    if package is None:
        if watch or plot or overlay:
            raise UsageError("--watch, --plot and --overlay need a package")
        _list_all(to_cluster, output, everywhere=everywhere)
        return
    if everywhere:
        raise UsageError("--all-namespaces lists packages: leave out the package")
    with open_target(ctx, package, overlay, to_cluster) as target:
        if watch and output is None:
            ended, _ = watch_and_record(target)
            for one, verdict in ended:
                report_end(one, verdict)
            return
        answers = _answers(target, output, watch=watch, plot=plot)
    for unseen in dict.fromkeys(answer.unseen for answer in answers):
        warn_unseen(unseen)
    if any(answer.verdict.phase in (Phase.FAILED, Phase.STUCK, Phase.ABSENT) for answer in answers):
        raise typer.Exit(7)


def _answers(target: Target, output: OutputFormat | None, *, watch: bool, plot: bool) -> list[Status]:
    """Print the state of each workload, again and again with `watch`, and return the last ones."""
    from packager.cluster import status as use_case
    from packager.cluster.follow import follow_all

    if watch:
        for update in follow_all(target):
            parts = zip(target.per_workload, update.per_workload or (update,), strict=True)
            answers = [use_case.status_from(one, part.snapshot, part.verdict) for one, part in parts]
            emit_output(use_case.as_json(answers), [answer.workload for answer in answers], output or OutputFormat.json)
        return answers
    answers = [use_case.status(one, with_curves=plot) for one in target.per_workload]
    if output is not None:
        emit_output(use_case.as_json(answers), [answer.workload for answer in answers], output)
        return answers
    for one, answer in zip(target.per_workload, answers, strict=True):
        _show(one, answer)
    return answers


def _list_all(kubectl: Kubectl, output: OutputFormat | None, *, everywhere: bool) -> None:
    """List what mlpack has deployed in the namespace, or in all."""
    from packager.cluster.history import deployments

    rows, unseen = deployments(kubectl, everywhere=everywhere)
    for resource, why in unseen.items():
        say(f"{resource} are not among these: {why}")
    if output is not None:
        answer = {"deployments": [row.as_json() for row in rows], "unseen": unseen}
        emit_output(answer, [row.workload for row in rows], output)
    elif rows:
        emit_table(deployed_rows(rows), gap="  ")
    else:
        say("nothing is deployed" if everywhere else "nothing is deployed in this namespace; -A looks in all")


def _show(target: Target, status: Status) -> None:
    from packager.cli.progress import lines, rows
    from packager.cluster.logreader import with_log_end

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
        for line in lines(with_log_end(target.kubectl, finding)):
            emit(line)
    if status.curves:
        print_curves(status.curves)
    elif status.curves is not None:
        say(f"no numbers in the log of {status.workload}: expected lines of JSON with a step, such as {_EXAMPLE}")
