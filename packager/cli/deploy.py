"""`mlpack deploy`: deploys a package to a cluster and follows it until the result is known."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import TimedOutError, UnansweredError, UsageError
from packager.cli.asking import has_terminal, limited, require_yes
from packager.cli.cluster_arguments import (
    Allow,
    Context,
    Kubeconfig,
    Namespace,
    OverlayOption,
    PackagePath,
    PodSecurity,
    Program,
    Verbose,
    Yes,
    kubectl_for,
    seconds,
)
from packager.cli.console import emit_data, say

if TYPE_CHECKING:
    from packager.app.deploy import PreparedDeploy
    from packager.app.target import Target
    from packager.cluster.deploy import Situation

_MAX_DIFFERENCES = 20


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
    ctx: typer.Context,
    package: PackagePath,
    overlay: OverlayOption = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended or is serving.")] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Print its log to stdout while it runs.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete a finished or different job of the same name first.")
    ] = False,
    yes: Yes = False,
    dry_run: Annotated[
        DryRun | None, typer.Option(help="Apply nothing; show what would be applied.", show_default=False)
    ] = None,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Also set fields that another user has changed.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Apply only the sealed package and permitted edits of it.")
    ] = True,
    allow: Allow = [],  # noqa: B006 - typer copies it
    pod_security: PodSecurity = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to wait at most, such as 90s or 2h.", show_default=False),
    ] = None,
    patience: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long to wait for temporary problems: no free resources, a full quota, no operator.",
        ),
    ] = "10m",
    output: Annotated[
        Applied | None, typer.Option("-o", "--output", help="Print what was applied.", show_default=False)
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Deploy a package to a cluster and wait until it has ended or is serving.

    Exit code 0 when it has succeeded or serves, 7 when it has failed or cannot run, 8 after --timeout. Ctrl-C leaves it
    running.
    """
    from packager.app import deploy as use_case
    from packager.app.verify import allowed_kinds, level
    from packager.cli.target import open_target
    from packager.cli.watching import report_end, watch_and_show

    limit = seconds(timeout) if timeout else None
    longest = seconds(patience)
    if follow and not wait:
        raise UsageError("--follow and --no-wait cannot be combined")
    timeout_error = TimedOutError(f"{package} is not deployed after {timeout}", hint="deploy again to complete it")
    to_cluster = kubectl_for(ctx, kubectl, namespace, context, kubeconfig, verbose=verbose)
    deadline = to_cluster.within(limit).deadline
    with limited(limit, timeout_error) as clock, open_target(ctx, package, overlay, to_cluster) as target:
        if verify:
            use_case.check(target, allowed_kinds(allow), level(pod_security))
        if dry_run:
            emit_data(use_case.dry_run(target, dry_run, force_conflicts=force_conflicts, form=output))
            return
        is_applied = False
        try:
            prepared = _delete_existing(use_case.prepare(target), replace=replace, yes=yes)
            _warn_of_lost_results(prepared, yes=yes)
            deployed = use_case.apply(prepared, force_conflicts=force_conflicts)
            is_applied = True
            clock.timeout_error = _not_ended_error(target, timeout)
            if output:
                emit_data(use_case.printed(target, output))
            for removed in deployed.removed:
                say(f"{removed} is deleted: the overlay does not contain it any more")
            verb = "is" if len(target.per_workload) == 1 else "are"
            say(f"{deployed.workload} {verb} deployed in the namespace {deployed.namespace}")
            if not wait:
                say(f"show its state: {target.command('status')}")
                return
            waiting = dataclasses.replace(target, kubectl=dataclasses.replace(target.kubectl, deadline=deadline))
            ended = watch_and_show(
                waiting, rendered=target.manifests.digest, timeout=limit, patience=longest, follow_log=follow
            )
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            _detach(target, is_applied=is_applied)
            raise
        for one, verdict in ended:
            report_end(one, verdict)


def _not_ended_error(target: Target, timeout: str | None) -> TimedOutError:
    what = "does not serve" if target.manifests.kind.serves else "has not ended"
    return TimedOutError(
        f"{target.shown} {what} after {timeout}",
        hint=f"it continues in the cluster; follow it with `{target.command('status')}`",
    )


def _delete_existing(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete the jobs that are in the way, when the user wants it, and return the deploy without them.

    Raises:
        UnansweredError: The user has not said so, and cannot be asked.
        MlpackError: The user does not want it.
    """
    # What is as the package says is replaced only where nothing else is in the way.
    blocked = [one.obstacle is not None for one in prepared.per_workload]
    for one, is_blocked in zip(prepared.per_workload, blocked, strict=True):
        replaces = replace and (is_blocked or not any(blocked))
        prepared = prepared.without(one, _delete_existing_workload(one, replace=replaces, yes=yes))
    return prepared


def _delete_existing_workload(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete the job that is in the way, when the user wants it, and return the deploy without it.

    Raises:
        UnansweredError: The user has not said so, and cannot be asked.
        MlpackError: The user does not want it.
    """
    from packager.app.deploy import delete_existing

    if prepared.is_new:
        return prepared
    if prepared.is_same and not replace:
        say(f"{prepared.target.shown} already exists and is up to date")
        return prepared
    if prepared.is_outdated and not replace:
        say(f"{prepared.target.shown} already exists with a different spec; the changes can be applied in place")
        return prepared
    _list_differences(prepared.situation)
    if prepared.obstacle is not None and not (replace or yes):
        unanswered = UnansweredError(
            f"{prepared.obstacle}; nothing was done", hint="--replace deletes it and deploys it again"
        )
        if has_terminal():
            say(f"{prepared.obstacle}.")
        require_yes("Delete it and deploy it again?", unanswered=unanswered, declined="nothing was done")
    say(f"waiting until the earlier {prepared.target.shown} is deleted")
    return delete_existing(prepared)


def _warn_of_lost_results(prepared: PreparedDeploy, *, yes: bool) -> None:
    """Print that results are lost with the pods, if they are; ask before a first run if there is a terminal.

    Raises:
        MlpackError: The user wants to keep them.
    """
    if (loss := prepared.loss) is None:
        return
    say(f"note: {loss}")
    if prepared.is_new and not yes and has_terminal():
        unanswered = UnansweredError("nothing was deployed", hint="-y answers yes")
        require_yes("Deploy it anyway?", unanswered=unanswered, declined="nothing was deployed")


def _list_differences(situation: Situation) -> None:
    """Say in what the job that is there differs from what would be applied."""
    for subject, difference in situation.differences[:_MAX_DIFFERENCES]:
        say(f"  {subject}  {difference}")
    if (more := len(situation.differences) - _MAX_DIFFERENCES) > 0:
        say(f"  and {more} more difference{'s' if more > 1 else ''}")


def _detach(target: Target, *, is_applied: bool) -> None:
    say("")
    if not is_applied:
        say(f"stopped before {target.shown} was known to be fully applied; deploy again to complete it")
    else:
        say(f"detached; {target.shown} continues in the cluster")
    say(f"  follow it:  {target.command('deploy')}")
    say(f"  look at it: {target.command('status')}")
    say(f"  delete it:  {target.command('delete')}")
