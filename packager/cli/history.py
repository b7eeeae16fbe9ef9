"""`mlpack history`: lists what is deployed of a package in a cluster, and from which build."""

from __future__ import annotations

from typing import Annotated

import typer

from packager.cli.cluster_arguments import ClusterOptions, PackagePath, with_cluster
from packager.cli.console import Machine, emit_json, emit_table, say


@with_cluster
def history(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackagePath,
    everywhere: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Look in every namespace.")] = False,
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.", show_default=False)] = None,
) -> None:
    """List the deployments of a package: when, by whom, and whether of this build."""
    from packager.app.history import history as find_deployments

    to_cluster = at.client(ctx)
    answer = find_deployments(to_cluster, package, everywhere=everywhere)
    if output is not None:
        emit_json(answer.as_json())
        return
    for resource, why in answer.unseen.items():
        say(f"{resource} are not among these: {why}")
    if not answer.deployments:
        say(f"nothing of {answer.package} is deployed")
        return
    lines = [("DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY")]
    for item in answer.deployments:
        build = "applied by kubectl" if item.digest is None else item.digest.removeprefix("sha256:")[:12]
        build += " (this one)" if item.digest == answer.digest else ""
        when = item.created.astimezone().strftime("%Y-%m-%d %H:%M")
        lines.append((when, item.namespace, item.workload, item.ended or "-", build, item.deployed_by or "-"))
    emit_table(lines, gap="  ")
