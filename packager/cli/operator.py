"""`mlpack operator status`: shows an operator, and how it is installed. Tests: cluster/test_operator.py."""

from enum import StrEnum
from typing import Annotated

import typer

from packager.base.errors import ClusterError
from packager.cli.cluster_arguments import ConnectionOptions
from packager.cli.commands import group
from packager.cli.console import Output, emit_output, say
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


def status(at: ConnectionOptions, name: Which, output: Output = None) -> None:
    """Show which versions the operator serves and whether it is running; exit code 7 when it is not.

    Then it prints the command that installs the release that mlpack is tested with, once per cluster.
    """
    client = at.client()
    state = use_case.status(client, name)
    emit_output(state.as_json(), [state.operator.name], output, _described(state))
    if state.exit_code == ClusterError.exit_code:
        say(f"hint: {state.operator.installation(client.installer)}", f"  the file's sha256: {state.operator.sha256}")
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


GROUP = group("Show the operator that workloads need.", status=status)
