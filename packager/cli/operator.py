"""`mlpack operator install|status`: manages operators, once per cluster. Tests: cluster/test_operator.py."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import ClusterError
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import ClusterOptions, DryRunOption, seconds
from packager.cli.console import emit, emit_lines, emit_output, say
from packager.cli.option_groups import with_options
from packager.cluster import operator as use_case

if TYPE_CHECKING:
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
From = Annotated[Path | None, typer.Option("--from", metavar="FILE", help="The manifest to use instead of upstream's.")]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Install or look at the operator that workloads need.", no_args_is_help=True)
    for verb in (install, status):
        group.command()(verb)
    app.add_typer(group, name="operator")


@with_options("at", ClusterOptions, without=("namespace",))
def install(
    ctx: typer.Context,
    at: ClusterOptions,
    name: Which,
    file: From = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is ready.")] = True,
    timeout: Timeout = "5m",
    dry_run: DryRunOption = None,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Also set fields that another user has changed.")
    ] = False,
    output: Output = None,
) -> None:
    """Install the operator release that mlpack is tested with, once per cluster, and wait until it is ready."""
    limit = seconds(timeout)
    client = at.client(ctx)
    applied = use_case.install(client, name, file, dry_run=dry_run, force_conflicts=force_conflicts, tell=say)
    if output is None:
        emit_lines(applied.output)
    else:
        emit_output(applied.as_json(), applied.names, output)
    if dry_run or not wait:
        return
    served = use_case.wait_until_ready(applied, timeout=limit, tell=say)
    say(f"{applied.operator.name} is installed and serves {applied.operator.kind} ({', '.join(served)})")


@with_options("at", ClusterOptions, without=("namespace",))
def status(
    ctx: typer.Context,
    at: ClusterOptions,
    name: Which,
    output: Output = None,
) -> None:
    """Show which versions the operator serves and whether it is running; exit code 7 when it is not."""
    client = at.client(ctx)
    state = use_case.status(client, name)
    if output is not None:
        emit_output(state.as_json(), [state.operator.name], output)
    else:
        for line in _described(state):
            emit(line)
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
