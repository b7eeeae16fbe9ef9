"""`mlpack deploy`: a package into a cluster, and followed until it is known what has become of it."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.cluster_arguments import (
    Context,
    Kubeconfig,
    Namespace,
    Overlay,
    PackagePath,
    Program,
    Verbose,
    Yes,
    reach,
    seconds,
)
from packager.cli.console import emit, say
from packager.errors import MlpackError, UsageError

if TYPE_CHECKING:
    from packager.cli.target import Target
    from packager.cluster.deploy import Situation


class DryRun(StrEnum):
    """Who judges what would be applied."""

    client = "client"
    server = "server"


class Applied(StrEnum):
    """How kubectl prints what was applied."""

    json = "json"
    name = "name"
    yaml = "yaml"


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(deploy)


def deploy(
    package: PackagePath,
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until it has ended.")] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Print its log to stdout as it comes.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete a finished or different job of the same name first.")
    ] = False,
    yes: Yes = False,
    dry_run: Annotated[
        DryRun | None, typer.Option(help="Apply nothing; say what would be.", show_default=False)
    ] = None,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Set also the fields that somebody else has changed.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to wait at most, such as 90s or 2h.", show_default=False),
    ] = None,
    patience: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long to wait for what may pass by itself: no room, a full quota."),
    ] = "10m",
    output: Annotated[
        Applied | None, typer.Option("-o", "--output", help="Print what was applied.", show_default=False)
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Bring a package into a cluster and wait for its end.

    Exit code 0 when it has succeeded, 7 when it has failed or cannot run, 8 after --timeout. Ctrl-C leaves it running.
    """
    from packager.cli.target import target, who
    from packager.cli.watching import conclude, watch
    from packager.cluster import deploy as deploying

    limit = seconds(timeout) if timeout else None
    longest = seconds(patience)
    if follow and not wait:
        raise UsageError("--follow and --no-wait contradict each other")
    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as to:
        if dry_run:
            stamped = to.manifests.stamped(to.package.digest, who())
            emit(deploying.apply(to.kubectl, stamped, dry_run=dry_run, force_conflicts=force_conflicts, output=output))
            return
        is_applied = False
        try:
            namespace_there = to.kubectl.default_namespace()
            situation = deploying.meet(to.kubectl, to.manifests)
            _make_room(to, situation, replace=replace, yes=yes)
            stamped = to.manifests.stamped(to.package.digest, _author(situation) or who())
            printed = deploying.apply(to.kubectl, stamped, force_conflicts=force_conflicts, output=output)
            is_applied = True
            if output:
                emit(printed)
            say(f"{to.shown} is deployed in the namespace {namespace_there}")
            if not wait:
                say(f"how it goes: {to.command('status')}")
                return
            verdict = watch(to, rendered=to.manifests.digest, timeout=limit, patience=longest, follow_log=follow)
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            _detach(to, is_applied=is_applied)
            raise
        conclude(to, verdict)


def _author(situation: Situation) -> str | None:
    from packager.cluster.deploy import State

    return situation.deployed_by if situation.state is State.SAME else None


def _make_room(to: Target, situation: Situation, *, replace: bool, yes: bool) -> None:
    """Delete the job that is in the way, when the user wants it.

    Raises:
        MlpackError: The user does not.
    """
    from packager.cluster.deploy import State, remove

    state = situation.state
    if state is State.ABSENT:
        return
    if state is State.SAME and not replace:
        say(f"{to.shown} is there already, just as the package says")
        return
    if state not in (State.SAME, State.GOING):
        question = _describe(to, situation)
        if not (replace or yes):
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise MlpackError(f"{question}; nothing was done", hint="--replace deletes it and deploys anew")
            say(f"{question}.")
            if not typer.confirm("Delete it and deploy anew?", default=False, err=True):
                raise MlpackError("nothing was done")
    say(f"waiting until the earlier {to.shown} is gone")
    remove(to.kubectl, [to.manifests.shown], timeout=300)


def _describe(to: Target, situation: Situation) -> str:
    from packager.cluster.deploy import State

    by = f", deployed by {situation.deployed_by}," if situation.deployed_by else ""
    for subject, difference in situation.differences[:20]:
        say(f"  {subject}  {difference}")
    if (more := len(situation.differences) - 20) > 0:
        say(f"  and {more} more difference{'s' if more > 1 else ''}")
    if situation.state is State.ENDED:
        return f"{to.shown}{by} has run already, and a finished job does not run again"
    return f"{to.shown}{by} is there already and is different; its pods cannot be changed while it exists"


def _detach(to: Target, *, is_applied: bool) -> None:
    say("")
    if not is_applied:
        say(f"stopped before {to.shown} was known to be applied whole; deploying again completes it")
    else:
        say(f"detached; {to.shown} goes on in the cluster")
    say(f"  come back:  {to.command('deploy')}")
    say(f"  look at it: {to.command('status')}")
    say(f"  remove it:  {to.command('delete')}")
