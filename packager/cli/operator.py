"""`mlpack operator install|status|uninstall`: what a devops person prepares once for everybody."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.cli.cluster_arguments import Context, Kubeconfig, Program, Verbose, Yes, reach, seconds
from packager.cli.console import Machine, emit, emit_json, say
from packager.cli.deploy import DryRun  # noqa: TC001 - typer reads the annotations
from packager.errors import ClusterError, MlpackError, TimedOutError, ToolError

if TYPE_CHECKING:
    from packager.cluster.client import Kubectl
    from packager.cluster.releases import Bundle, Release


class Operator(StrEnum):
    """The operators that mlpack knows."""

    mpi = "mpi"


Which = Annotated[Operator, typer.Argument(metavar="NAME", help="mpi, for mpi-operator.", show_default=False)]
From = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="Its manifest, in place of upstream's.", show_default=False),
]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Install, look at or remove the operator that workloads need.", no_args_is_help=True)
    for verb in (install, status, uninstall):
        group.command()(verb)
    app.add_typer(group, name="operator")


def install(
    operator: Which,
    file: From = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until it serves.")] = True,
    timeout: Timeout = "5m",
    dry_run: Annotated[
        DryRun | None, typer.Option(help="Apply nothing; say what would be.", show_default=False)
    ] = None,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Set also the fields that somebody else has changed.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Install the operator that this mlpack is tried with, once for the whole cluster, and wait until it serves."""
    from packager.cluster import operator as operators
    from packager.cluster.releases import RELEASES, bundle

    limit = seconds(timeout)
    release = RELEASES[operator]
    to = reach(kubectl, None, context, kubeconfig, verbose=verbose)
    if file is None:
        say(f"fetching {release.url}")
    manifests = bundle(release, file)
    if not manifests.is_pinned:
        say(f"note: {file} is not upstream's manifest of {release.version} as it is; its bytes differ")
    emit(operators.install(to, release, manifests, dry_run=dry_run, force_conflicts=force_conflicts))
    if dry_run or not wait:
        return
    _await(to, manifests, limit)
    say(f"{release.name} is installed and serves {release.kind} ({', '.join(operators.served(to, release))})")


def status(
    operator: Which,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.", show_default=False)] = None,
    verbose: Verbose = False,
) -> None:
    """Say which versions the operator serves and whether it is alive. Ends with 7 when it is not."""
    from packager.cluster.heartbeat import Alive
    from packager.cluster.releases import RELEASES

    release = RELEASES[operator]
    said = _status(reach(kubectl, None, context, kubeconfig, verbose=verbose), release)
    if output is Machine.json:
        emit_json(said)
    else:
        emit("\n".join(_described(release, said)))
    if said["alive"] == Alive.UNKNOWN:
        raise typer.Exit(ToolError.exit_code)
    if said["alive"] != Alive.YES or release.api.partition("/")[2] not in said["served"]:
        say(f"hint: mlpack operator install {operator}")
        raise typer.Exit(ClusterError.exit_code)


def uninstall(
    operator: Which,
    file: From = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    keep_crds: Annotated[bool, typer.Option("--keep-crds", help="Keep the CRD, and with it every job.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even while jobs run: it ends them.")] = False,
    yes: Yes = False,
    timeout: Timeout = "5m",
    verbose: Verbose = False,
) -> None:
    """Remove the operator, and its CRD with every job that there is; not while jobs run."""
    from packager.cluster import operator as operators
    from packager.cluster.releases import RELEASES, bundle

    limit = seconds(timeout)
    release = RELEASES[operator]
    to = reach(kubectl, None, context, kubeconfig, verbose=verbose)
    manifests = bundle(release, file) if file else None
    going = operators.removed(release, manifests, keep_crds=keep_crds)
    running, ended = operators.jobs(to, release) if operators.served(to, release) else ([], [])
    if running and not force:
        some = ", ".join(f"{job['metadata']['namespace']}/{job['metadata']['name']}" for job in running[:5])
        more = f" and {len(running) - 5} more" if len(running) > 5 else ""
        raise ClusterError(f"{_count(running)} under it: {some}{more}", hint="wait for them, or end them with --force")
    lost = [*running, *ended] if f"customresourcedefinition/{release.crd}" in going else []
    for each in going:
        say(f"  {each}")
    if lost:
        say(f"  with the CRD: {_count(running)} and {len(ended)} ended; all of them go")
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise MlpackError("nothing was deleted: there is no terminal to ask on", hint="-y answers with yes")
        if not typer.confirm(f"Delete {release.name} from the cluster?", default=False, err=True):
            raise MlpackError("nothing was deleted")
    emit(operators.uninstall(to, release, manifests, keep_crds=keep_crds, timeout=limit) or "nothing was there")


def _await(kubectl: Kubectl, manifests: Bundle, limit: float) -> None:
    from packager.cluster.operator import settle

    deadline = time.monotonic() + limit
    said = ""
    for waiting in settle(kubectl, manifests):
        if waiting != said:
            say(f"waiting: {waiting}")
            said = waiting
        if time.monotonic() > deadline:
            raise TimedOutError(f"the operator does not serve after {limit:g} s: {waiting}")


def _status(kubectl: Kubectl, release: Release) -> dict[str, Any]:
    from packager.cluster.heartbeat import listen
    from packager.cluster.operator import jobs, served

    versions = served(kubectl, release)
    heartbeat = listen(kubectl, release.name)
    running, ended = jobs(kubectl, release) if versions else ([], [])
    return {
        "operator": release.name,
        "crd": release.crd if versions else None,
        "served": list(versions),
        "alive": heartbeat.alive,
        "evidence": heartbeat.evidence,
        "image": heartbeat.image,
        "jobs": {"running": len(running), "ended": len(ended)},
        "tried": release.version,
    }


def _described(release: Release, said: dict[str, Any]) -> list[str]:
    wanted = release.api.partition("/")[2]
    served = ", ".join(said["served"])
    fits = "" if not served else " (as packages need it)" if wanted in said["served"] else f" (packages need {wanted})"
    return [
        f"serves  {f'{release.crd} {served}{fits}' if served else f'nothing: there is no {release.crd}'}",
        f"alive   {said['alive']}: {said['evidence']}",
        f"image   {said['image'] or 'not in a Deployment of this cluster'}; tried with {release.version}",
        f"jobs    {said['jobs']['running']} running, {said['jobs']['ended']} ended",
    ]


def _count(running: list[Any]) -> str:
    return f"{len(running)} job{'s' if len(running) != 1 else ''} run{'' if len(running) != 1 else 's'}"
