"""`mlpack deploy`: deploys a package to a cluster and follows it until the result is known."""

import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

from packager.base.errors import TimedOutError, UsageError
from packager.base.paths import argument
from packager.cli.arguments import Expect, OverlayOption, PackageToRead
from packager.cli.asking import has_terminal, limited, require_yes
from packager.cli.cluster_arguments import ClusterOptions, DeployOptions, open_target, seconds
from packager.cli.console import Form, emit_data, say
from packager.cli.printing import print_deployed
from packager.cli.registry_arguments import SignatureOptions, local_package
from packager.cli.watching import report_end, watch_and_record
from packager.cluster import deploy as use_case
from packager.cluster.deploy import PreparedDeploy
from packager.cluster.target import Target
from packager.verify.command import expected_digest


def deploy(
    options: DeployOptions,
    signatures: SignatureOptions,
    at: ClusterOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended or is serving.")] = True,
    expect: Expect = None,
    output: Annotated[Form | None, typer.Option("-o", "--output", help="Print what was applied.")] = None,
) -> None:
    """Deploy a package to a cluster and wait until it has ended or is serving.

    Exit code 0 when it has succeeded or serves, 7 when it has failed or cannot run, 8 after --timeout. Ctrl-C leaves it
    running.
    """
    limit, hold = options.limit, options.hold_seconds
    seconds(options.patience)
    _refuse_combined(
        ("--follow", options.follow and not wait, "--no-wait"),
        ("--results", options.results is not None and not wait, "--no-wait"),
        ("--expect", expect is not None and not options.verify, "--no-verify"),
    )
    package = local_package(package, signatures.trust())
    timeout_error = TimedOutError(
        f"{package} is not deployed after {options.timeout}", hint="deploy again to complete it"
    )
    client = at.client()
    deadline = client.within(limit).deadline
    with limited(limit, timeout_error) as clock, open_target(package, overlay, client) as target:
        if options.verify:
            use_case.check(target, *options.accepted(), expected_digest(expect))
        if options.dry_run:
            print_dry_run(target, options, output)
            return
        _introduce(target, overlay)
        is_applied = False
        try:
            prepared = delete_existing(use_case.prepare(target, hold), replace=options.replace, yes=options.yes)
            warn_of_lost_results([prepared], yes=options.yes)
            deployed = use_case.apply(prepared, force_conflicts=options.force_conflicts)
            is_applied = True
            clock.timeout_error = not_ended_error(target, options)
            if output:
                emit_data(use_case.printed(target, output))
            print_deployed(deployed)
            if not wait:
                say(f"show its state: {target.command('status')}")
                return
            ended, missing = watch_and_record(prepared.target, options, deadline)
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            _detach(target, options, is_applied=is_applied)
            raise
        for one, verdict in ended:
            report_end(one, verdict)
        if missing:
            raise missing


def _refuse_combined(*pairs: tuple[str, bool, str]) -> None:
    for name, is_set, other in pairs:
        if is_set:
            raise UsageError(f"{name} and {other} cannot be combined")


def print_dry_run(target: Target, options: DeployOptions, output: Form | None) -> None:
    """Print the objects of a deploy without applying them."""
    planned = use_case.with_hold(target, options.hold_seconds)
    assert options.dry_run is not None
    emit_data(use_case.dry_run(planned, options.dry_run, force_conflicts=options.force_conflicts, form=output))


def not_ended_error(target: Target, options: DeployOptions) -> TimedOutError:
    """Return the error for a workload that has not reached its goal at the timeout."""
    what = "does not serve" if target.manifests.kind.serves else "has not ended"
    return TimedOutError(
        f"{target.shown} {what} after {options.timeout}",
        hint=f"it continues in the cluster; follow it with `{target.command('status')}`",
    )


def _introduce(target: Target, overlay: str | None) -> None:
    """Print the version, and that one overlay of the sequence is deployed alone, unless the user has named it."""
    if target.package.version:
        say(f"{target.package.name} {target.package.version}")
    if overlay is None and len(target.package.sequence) > 1:
        command = shlex.join(["mlpack", "run", argument(target.package.source)])
        say(f"note: this deploys {target.overlay} alone; `{command}` runs {', '.join(target.package.sequence)}")


def _detach(target: Target, options: DeployOptions, *, is_applied: bool) -> None:
    recording = ["--results", str(options.results)] if options.results else []
    unknown = f"stopped before {target.shown} was known to be fully applied; deploy again to complete it"
    say(
        "",
        f"detached; {target.shown} continues in the cluster" if is_applied else unknown,
        f"  follow it:  {target.command('deploy', *options.arguments, *recording)}",
        f"  look at it: {target.command('status')}",
        f"  delete it:  {target.command('delete')}",
    )


def delete_existing(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete existing jobs that must be replaced, if the user agrees, and return the deploy without them.

    Raises:
        UnansweredError: The user has not agreed with an option, and there is no terminal to ask on.
        MlpackError: The user does not agree.
    """
    # An unchanged job is replaced only if no other job has to be replaced.
    blocked = [one.obstacle is not None for one in prepared.per_workload]
    for one, is_blocked in zip(prepared.per_workload, blocked, strict=True):
        replaces = replace and (is_blocked or not any(blocked))
        prepared = prepared.without(one, _delete_workload(one, replace=replaces, yes=yes))
    return prepared


def _delete_workload(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete the existing job of one workload, if the user agrees, and return the deploy without it."""
    shown = prepared.target.shown
    if prepared.is_new:
        return prepared
    if prepared.is_same and not replace:
        say(f"{shown} already exists and is up to date")
        return prepared
    if prepared.is_outdated and not replace:
        say(f"{shown} already exists with a different spec; the changes can be applied in place")
        return prepared
    if prepared.obstacle is not None and not (replace or yes):
        unanswered, hint = f"{prepared.obstacle}; nothing was done", "--replace deletes it and deploys it again"
        if has_terminal():
            say(f"{prepared.obstacle}.")
        require_yes("Delete it and deploy it again?", unanswered=unanswered, hint=hint)
    say(f"waiting until the earlier {shown} is deleted")
    return use_case.delete_existing(prepared)


def warn_of_lost_results(deploys: Sequence[PreparedDeploy], *, yes: bool, way_out: str | None = None) -> None:
    """Print where results go, or that they are lost; then, before a first run, ask if there is a terminal.

    Raises:
        MlpackError: The user does not want to lose the results.
    """
    say(*dict.fromkeys(kept for prepared in deploys for kept in prepared.kept_results))
    losing = [prepared for prepared in deploys if prepared.lost_results is not None]
    say(*dict.fromkeys(f"note: {f'{one.lost_results}; {way_out}' if way_out else one.loss}" for one in losing))
    if any(prepared.is_new for prepared in losing) and not yes and has_terminal():
        nothing = "nothing was deployed"
        require_yes("Deploy it anyway?", unanswered=nothing, hint="-y answers yes", declined=nothing)
