"""`mlpack deploy`: deploys a package to a cluster and follows it until the result is known."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import TimedOutError, UsageError
from packager.base.paths import argument
from packager.cli.arguments import with_site
from packager.cli.asking import limited
from packager.cli.cluster_arguments import (
    Allow,
    ClusterOptions,
    DryRunOption,
    Expect,
    ForceConflicts,
    Hold,
    OverlayOption,
    PackageToRead,
    Patience,
    PodSecurity,
    RecordsFolder,
    Verify,
    Yes,
    acceptance,
    hold_seconds,
    open_target,
    seconds,
    with_cluster,
)
from packager.cli.console import OutputFormat, emit_data, say
from packager.cli.deploy_questions import delete_existing, warn_of_lost_results
from packager.cli.printing import print_changes, print_deployed
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.cluster.target import Target


@with_cluster
@with_signatures
def deploy(
    ctx: typer.Context,
    at: ClusterOptions,
    signatures: SignatureOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended or is serving.")] = True,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print its log to stdout while it runs, with that of each attempt.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete a finished or different job of the same name first.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRunOption = None,
    force_conflicts: ForceConflicts = False,
    verify: Verify = True,
    allow: Allow = [],  # noqa: B006 - typer copies it
    pod_security: PodSecurity = None,
    expect: Expect = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait at most, such as 90s or 2h.")
    ] = None,
    patience: Patience = "10m",
    results: RecordsFolder = None,
    hold: Hold = None,
    output: Annotated[OutputFormat | None, typer.Option("-o", "--output", help="Print what was applied.")] = None,
) -> None:
    """Deploy a package to a cluster and wait until it has ended or is serving.

    Exit code 0 when it has succeeded or serves, 7 when it has failed or cannot run, 8 after --timeout. Ctrl-C leaves it
    running.
    """
    from packager.cli.registry_arguments import local_package
    from packager.cli.watching import report_end, watch_and_record
    from packager.cluster import deploy as use_case
    from packager.verify.command import allowed_words, expected_digest, level

    limit = (seconds(timeout) or None) if timeout is not None else None
    longest, held = seconds(patience), hold_seconds(hold, results)
    _refuse_combined({"--follow": follow, "--results": results is not None}, "--no-wait", is_set=not wait)
    _refuse_combined({"--expect": expect is not None}, "--no-verify", is_set=not verify)
    package = local_package(ctx, package, signatures.trust())
    timeout_error = TimedOutError(f"{package} is not deployed after {timeout}", hint="deploy again to complete it")
    to_cluster = at.client(ctx)
    deadline = to_cluster.within(limit).deadline
    with limited(limit, timeout_error) as clock, open_target(ctx, package, overlay, to_cluster) as target:
        if verify:
            use_case.check(target, allowed_words(with_site(allow)), level(pod_security), expected_digest(expect))
        if dry_run:
            planned = use_case.with_hold(target, held)
            emit_data(use_case.dry_run(planned, dry_run, force_conflicts=force_conflicts, form=output))
            if dry_run == "server":
                print_changes(use_case.planned_changes(planned, force_conflicts=force_conflicts))
            return
        _introduce(target, overlay)
        is_applied = False
        try:
            prepared = delete_existing(use_case.prepare(target, held), replace=replace, yes=yes)
            warn_of_lost_results([prepared], yes=yes)
            deployed = use_case.apply(prepared, force_conflicts=force_conflicts)
            is_applied = True
            clock.timeout_error = _not_ended_error(target, timeout)
            if output:
                emit_data(use_case.printed(target, output))
            print_deployed(deployed)
            if not wait:
                say(f"show its state: {target.command('status')}")
                return
            waiting = dataclasses.replace(
                prepared.target, kubectl=dataclasses.replace(target.kubectl, deadline=deadline)
            )
            ended, missing = watch_and_record(
                waiting,
                rendered=target.manifests.digest,
                timeout=limit,
                patience=longest,
                follow_log=follow,
                results=results,
            )
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            recording = ["--results", str(results)] if results else []
            _detach(target, [*acceptance(allow, pod_security), *recording], is_applied=is_applied)
            raise
        for one, verdict in ended:
            report_end(one, verdict)
        if missing:
            raise missing


def _refuse_combined(options: Mapping[str, bool], other: str, *, is_set: bool) -> None:
    """Refuse options that are set and contradict another one, if that is set. Raises UsageError."""
    for name, is_given in options.items():
        if is_given and is_set:
            raise UsageError(f"{name} and {other} cannot be combined")


def _introduce(target: Target, overlay: str | None) -> None:
    """Print the version, and that one overlay of the sequence is deployed alone, unless the user has named it."""
    if target.package.version:
        say(f"{target.package.name} {target.package.version}")
    if overlay is None and len(target.package.sequence) > 1:
        command = shlex.join(["mlpack", "run", argument(target.package.source)])
        say(f"note: this deploys {target.overlay} alone; `{command}` runs {', '.join(target.package.sequence)}")


def _not_ended_error(target: Target, timeout: str | None) -> TimedOutError:
    what = "does not serve" if target.manifests.kind.serves else "has not ended"
    return TimedOutError(
        f"{target.shown} {what} after {timeout}",
        hint=f"it continues in the cluster; follow it with `{target.command('status')}`",
    )


def _detach(target: Target, accepted: Sequence[str], *, is_applied: bool) -> None:
    say("")
    if not is_applied:
        say(f"stopped before {target.shown} was known to be fully applied; deploy again to complete it")
    else:
        say(f"detached; {target.shown} continues in the cluster")
    say(f"  follow it:  {target.command('deploy', *accepted)}")
    say(f"  look at it: {target.command('status')}")
    say(f"  delete it:  {target.command('delete')}")
