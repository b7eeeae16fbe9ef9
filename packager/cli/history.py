"""`mlpack history`: lists what is deployed of a package in a cluster, and from which build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.arguments import Output, runs_folder
from packager.cli.cluster_arguments import ClusterOptions, PackageToRead, with_cluster
from packager.cli.console import emit_output, emit_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.cluster.history import Deployment, History


@with_cluster
def history(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackageToRead,
    everywhere: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Look in every namespace.")] = False,
    results: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The folder of runs that deploy --results has recorded. Other runs are kept in MLPACK_RUNS.",
        ),
    ] = Path("results"),
    output: Output = None,
) -> None:
    """List the deployments of a package: when, by whom, and whether of this build; and its recorded runs.

    Recorded runs are listed also if the cluster does not answer, before that error.
    """
    from packager.cli.registry_arguments import local_package
    from packager.cluster.history import history as find_deployments

    to_cluster = at.client(ctx)
    kept = runs_folder()
    records = (results, kept) if kept else (results,)
    answer = find_deployments(to_cluster, local_package(ctx, package), everywhere=everywhere, records=records)
    if output is not None:
        emit_output(answer.as_json(), [item.workload for item in answer.deployments], output)
    else:
        _show(answer)
    if answer.error is not None:
        raise answer.error


def _show(answer: History) -> None:
    for resource, why in answer.unseen.items():
        say(f"{resource} are not among these: {why}")
    if answer.deployments:
        emit_table(deployed_rows(answer.deployments, answer.digest), gap="  ")
    elif answer.error is None:
        say(f"nothing of {answer.package} is deployed")
    if answer.records:
        emit_table(_records(answer), gap="  ")


def _records(answer: History) -> list[tuple[str, ...]]:
    return [
        ("CREATED", "WORKLOAD", "ENDED", "BUILD", "RECORD"),
        *(
            (run.created, run.workload, run.phase, build_words(run.digest, run.version, answer.digest), str(run.folder))
            for run in answer.records
        ),
    ]


def deployed_rows(deployments: Iterable[Deployment], digest: str | None = None) -> list[tuple[str, ...]]:
    """Return a table; `digest` is that of the build that the user named."""
    rows: list[tuple[str, ...]] = [("DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY")]
    for item in deployments:
        when = item.created.astimezone().strftime("%Y-%m-%d %H:%M")
        build = build_words(item.digest, item.version, digest)
        rows.append((when, item.namespace, item.workload, item.ended or "-", build, item.deployed_by or "-"))
    return rows


def build_words(digest: str | None, version: str | None, named: str | None) -> str:
    """Return a build in words, and whether it is the one that the user named."""
    if digest is None:
        return "applied by kubectl"
    shown = f"{version} " if version else ""
    return shown + digest.removeprefix("sha256:")[:12] + (" (this one)" if digest == named else "")
