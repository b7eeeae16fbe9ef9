"""`mlpack status`: shows the state of a deployed package and the reasons; without a package, lists what is deployed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UsageError
from packager.cli.arguments import OverlayOption
from packager.cli.cluster_arguments import ClusterOptions, open_target
from packager.cli.console import Form, Output, emit, emit_output, say, table
from packager.cli.printing import curve_lines, finding_lines, pod_rows
from packager.cli.watching import report_end, warn_unseen, watch_and_record
from packager.cluster import status as use_case
from packager.cluster.logreader import with_log_end
from packager.cluster.status import Deployment, Status, deployments
from packager.cluster.target import Target
from packager.cluster.workload_watch import follow_all
from packager.kubernetes.verdict import Phase

if TYPE_CHECKING:
    from packager.kubernetes.kubectl.client import Kubectl

_EXAMPLE = '{"step": 10, "loss": 2.5}'


def status(
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
    curves: Annotated[
        bool, typer.Option("--curves", help="List the numbers in its log: lines of JSON with a step.")
    ] = False,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Without a package: look in every namespace.")
    ] = False,
    output: Output = None,
) -> None:
    """Show the state of a deployed package, and the reasons; without a package, list what is deployed.

    Exit code 0 while all is well; 7 when it has failed, cannot run, or does not exist.
    """
    if watch and curves:
        raise UsageError("--watch and --curves cannot be combined")
    client = at.client()
    if package is None:
        if watch or curves or overlay:
            raise UsageError("--watch, --curves and --overlay need a package")
        _list_all(client, output, everywhere=everywhere)
        return
    if everywhere:
        raise UsageError("--all-namespaces lists packages: leave out the package")
    with open_target(package, overlay, client) as target:
        if watch and output is None:
            ended, _ = watch_and_record(target)
            for one, verdict in ended:
                report_end(one, verdict)
            return
        answers = _watched(target, output or "json") if watch else _answers(target, output, curves=curves)
    for unseen in dict.fromkeys(answer.unseen for answer in answers):
        warn_unseen(unseen)
    if any(answer.verdict.phase in (Phase.FAILED, Phase.STUCK, Phase.ABSENT) for answer in answers):
        raise typer.Exit(7)


def _watched(target: Target, output: Form) -> list[Status]:
    """Print the state of each workload after each change, and return the last ones."""
    for update in follow_all(target):
        parts = zip(target.per_workload, update.per_workload or (update,), strict=True)
        answers = [use_case.status_from(one, part.snapshot, part.verdict) for one, part in parts]
        emit_output(use_case.as_json(answers), [answer.workload for answer in answers], output)
    return answers


def _answers(target: Target, output: Form | None, *, curves: bool) -> list[Status]:
    """Print the state of each workload, and return it."""
    answers = [use_case.status(one, with_curves=curves) for one in target.per_workload]
    emit_output(use_case.as_json(answers), [answer.workload for answer in answers], output, ())
    for one, answer in zip(target.per_workload, answers, strict=True) if output is None else ():
        _show(one, answer)
    return answers


def _show(target: Target, status: Status) -> None:
    lines = [f"{status.workload}  {status.verdict.phase}: {status.verdict.summary}"]
    lines += [f"version {status.version}"] if status.version else []
    lines += [f"note: {status.note}"] if status.note else []
    lines += table(pod_rows(status.pods)) if status.pods else []
    lines += [f"{item.shown}  {item.state}" for item in status.beside]
    emit(*lines)
    for finding in status.verdict.findings:
        emit(*finding_lines(with_log_end(target.kubectl, finding)))
    if status.curves:
        emit(*curve_lines(status.curves))
    elif status.curves is not None:
        say(f"no numbers in the log of {status.workload}: expected lines of JSON with a step, such as {_EXAMPLE}")


def _list_all(kubectl: "Kubectl", output: Form | None, *, everywhere: bool) -> None:
    """List the workloads that mlpack has deployed in the namespace, or in all namespaces."""
    rows, unseen = deployments(kubectl, everywhere=everywhere)
    say(*(f"{resource} are not among these: {why}" for resource, why in unseen.items()))
    answer = {"deployments": [row.as_json() for row in rows], "unseen": unseen}
    emit_output(answer, [row.workload for row in rows], output, _deployed(rows))
    if not rows and output is None:
        say("nothing is deployed" if everywhere else "nothing is deployed in this namespace; -A looks in all")


def _deployed(deployments: Sequence[Deployment]) -> list[str]:
    """Return the lines of a table, if there is a row."""
    rows: list[tuple[str, ...]] = [("DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY")]
    for item in deployments:
        when = item.created.astimezone().strftime("%Y-%m-%d %H:%M")
        digest = (item.digest or "").removeprefix("sha256:")[:12]
        build = " ".join(filter(None, (item.version, digest))) or "applied by kubectl"
        rows.append((when, item.namespace, item.workload, item.ended or "-", build, item.deployed_by or "-"))
    return [*table(rows)] if deployments else []
