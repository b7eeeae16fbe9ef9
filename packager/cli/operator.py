"""`mlpack operator install|status`: manages operators, once per cluster. Tests: cluster/test_operator.py."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import ClusterError
from packager.cli.cluster_arguments import ConnectionOptions, DryRunOption, ForceConflicts, seconds
from packager.cli.commands import group
from packager.cli.console import Output, emit, emit_output, say
from packager.cluster import operator as use_case
from packager.cluster.operator import OperatorStatus

Short = StrEnum("Short", {short: short for short in use_case.operator_names()})  # type: ignore[misc]
"""The operators that mlpack knows."""

Which = Annotated[
    Short,
    typer.Argument(
        metavar="NAME",
        help=", ".join(f"{short}, for {name}" for short, name in use_case.operator_names().items()) + ".",
    ),
]


def install(
    at: ConnectionOptions,
    name: Which,
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="The manifest to use instead of upstream's.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is ready.")] = True,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most.")] = "5m",
    dry_run: DryRunOption = None,
    force_conflicts: ForceConflicts = False,
    output: Output = None,
) -> None:
    """Install the operator release that mlpack is tested with, once per cluster, and wait until it is ready."""
    limit = seconds(timeout)
    client = at.client()
    applied = use_case.install(client, name, file, dry_run=dry_run, force_conflicts=force_conflicts, tell=say)
    if output is None:
        emit(*applied.output.removesuffix("\n").split("\n"))
    else:
        emit_output(applied.as_json(), applied.names, output)
    if dry_run or not wait:
        return
    served = use_case.wait_until_ready(applied, timeout=limit, tell=say)
    say(f"{applied.operator.name} is installed and serves {applied.operator.kind} ({', '.join(served)})")


def status(at: ConnectionOptions, name: Which, output: Output = None) -> None:
    """Show which versions the operator serves and whether it is running; exit code 7 when it is not."""
    client = at.client()
    state = use_case.status(client, name)
    emit_output(state.as_json(), [state.operator.name], output, _described(state))
    if state.exit_code == ClusterError.exit_code:
        say(f"hint: {state.operator.installation(client.cluster)}")
    raise typer.Exit(state.exit_code)


def _described(state: OperatorStatus) -> list[str]:
    operator, heartbeat = state.operator, state.heartbeat
    served, tested = ", ".join(state.served), operator.tested or operator.version
    fits = " (as packages need it)" if state.needed in state.served else f" (packages need {state.needed})"
    return [
        f"serves  {f'{operator.crd} {served}{fits}' if served else f'nothing: {operator.crd} is not installed'}",
        f"alive   {heartbeat.alive}: {heartbeat.evidence}",
        f"image   {heartbeat.image or 'not in a Deployment of this cluster'}; tested with {tested}",
        f"jobs    {state.running} running, {state.ended} ended",
    ]


GROUP = group("Install or look at the operator that workloads need.", install=install, status=status)
