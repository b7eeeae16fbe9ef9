"""`mlpack run`: runs overlays of a package one after the other, and stops at the first that fails."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import TimedOutError, UsageError
from packager.cli.arguments import with_site
from packager.cli.asking import limited
from packager.cli.build_arguments import ModelOptions, with_model
from packager.cli.cluster_arguments import (
    Allow,
    ClusterOptions,
    DryRunOption,
    ForceConflicts,
    Hold,
    Patience,
    PodSecurity,
    RecordsFolder,
    Verify,
    Yes,
    hold_seconds,
    seconds,
    with_cluster,
)
from packager.cli.console import OutputFormat, emit_data, progress, say
from packager.cli.host import host
from packager.cli.printing import print_changes
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.target import Target


class ClaimAccess(StrEnum):
    """The access mode of a claim: for pods of one node, or of several."""

    once = "ReadWriteOnce"
    many = "ReadWriteMany"


@with_cluster
@with_signatures
@with_model
def run(
    ctx: typer.Context,
    at: ClusterOptions,
    signatures: SignatureOptions,
    build: ModelOptions,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            help="A package, an MLCube or a model: a folder or a file, or oci://HOST/REPOSITORY:TAG.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="A,B",
            help="The overlays to run, in this order; by default the package's sequence, else its default overlay.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip what has succeeded already with the same build.")
    ] = False,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Go on after a task has failed.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Print the logs to stdout while the tasks run.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete finished or different jobs of the same names first.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRunOption = None,
    force_conflicts: ForceConflicts = False,
    verify: Verify = True,
    allow: Allow = [],  # noqa: B006 - typer copies it
    pod_security: PodSecurity = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long all of it may take, such as 90s or 2h.")
    ] = None,
    patience: Patience = "10m",
    results: RecordsFolder = None,
    hold: Hold = None,
    output: Annotated[
        OutputFormat | None,
        typer.Option("-o", "--output", help="json: a line for each task, at its end. name, yaml: what was applied."),
    ] = None,
    claim_size: Annotated[
        str | None, typer.Option("--claim-size", metavar="SIZE", help="Create claims that do not exist, of this size.")
    ] = None,
    claim_class: Annotated[
        str | None, typer.Option("--claim-class", metavar="NAME", help="The storage class of claims that are created.")
    ] = None,
    claim_access: Annotated[
        ClaimAccess | None,
        typer.Option(
            "--claim-access",
            help="Who may mount claims that are created: pods of one node (the default), or of several.",
        ),
    ] = None,
) -> None:
    """Run overlays of a package one after the other, or tasks of an MLCube.

    Each starts when the one before has succeeded, or serves. Exit code 0 when all have, 7 when one has failed or cannot
    run, 8 after --timeout. Ctrl-C leaves the current one running. A cube is imported with defaults; for other values,
    run what `mlpack import mlcube` makes of it.
    """
    from packager.cli.registry_arguments import local_package
    from packager.cli.running import RunSession
    from packager.cluster import claims
    from packager.cluster import deploy as deploying
    from packager.cluster import sequence as use_case
    from packager.cluster.runnable import runnable
    from packager.verify.command import allowed_words, level

    limit = (seconds(timeout) or None) if timeout is not None else None
    longest = seconds(patience)
    held = hold_seconds(hold, results)
    if follow and output:
        raise UsageError("--follow and --output cannot be combined")
    claims.check_options(claim_size, claim_class, claim_access)
    names = _names(task)
    target = local_package(ctx, target, signatures.trust())
    timeout_error = TimedOutError(f"no task of {target} was started within {timeout}")
    with limited(limit, timeout_error) as clock:
        package = runnable(build.request(target), tell=say, progress=progress)
        if package.namespace and at.namespace is None:
            say(f"namespace {package.namespace}, as the cube says; -n names another one")
        to_cluster = at.client(ctx, package.namespace)
        deadline = to_cluster.within(limit).deadline
        with use_case.open_tasks(package, names, to_cluster, person=host(ctx).person, tell=say) as targets:
            if verify:
                for one in targets:
                    deploying.check(one, allowed_words(with_site(allow)), level(pod_security))
            if dry_run:
                for one in (deploying.with_hold(one, held) for one in targets):
                    emit_data(deploying.dry_run(one, dry_run, force_conflicts=force_conflicts, form=output))
                    if dry_run == "server":
                        print_changes(deploying.planned_changes(one, force_conflicts=force_conflicts))
                return
            again = [*_again(ctx, target), *(["--task", ",".join(one.overlay for one in targets)] if names else [])]
            session = RunSession(
                again=shlex.join([*again, "--resume"]),
                is_cube=package.is_cube,
                is_built=package.package != package.source,
                limit=clock,
                timeout=timeout,
                seconds=limit,
                deadline=deadline,
                patience=longest,
                output=output,
                follow_log=follow,
                replace=replace,
                yes=yes,
                resume=resume,
                keep_going=keep_going,
                force_conflicts=force_conflicts,
                results=results,
                hold=held,
            )
            session.ask([use_case.task(one, held) for one in targets])
            _create_claims(targets, claim_size, claim_class, claim_access or ClaimAccess.once)
            session.run(targets)


def _create_claims(targets: Sequence[Target], size: str | None, storage_class: str | None, access: ClaimAccess) -> None:
    """Create missing claims if the user or the package says how; print a note about each of the others."""
    from packager.cluster import claims

    for claim in claims.missing_claims(targets):
        if size is not None:
            claims.create_claim(targets[0], claim, size, storage_class, access)
            say(f"claim {claim} is created, of {size}; mlpack does not delete it")
        elif claim == targets[0].package.workspace:
            claims.create_workspace(targets[0], say)
        else:
            say(f"note: claim {claim} not found; --claim-size 10Gi creates it")


def _names(text: str | None) -> list[str] | None:
    """Return the names of a comma-separated list; None if there is no list."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--task {text}: expected names with ',' between them")
    return names


_NOT_AGAIN = (
    *("target", "task", "resume", "replace", "yes", "timeout", "output", "follow", "verbose", "dry_run"),
    *("claim_size", "claim_class", "claim_access"),
)


def _again(ctx: typer.Context, target: Path) -> list[str]:
    """Return the command line of the same run, without its tasks and the options that apply to this run only."""
    from packager.base.paths import argument

    command = ["mlpack", "run", argument(target)]
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if option.name in _NOT_AGAIN or value is None or value == option.get_default(ctx):
            continue
        if isinstance(value, bool):
            command.append((option.opts if value else option.secondary_opts)[0])
            continue
        flag = max(option.opts, key=len)
        for item in value if isinstance(value, list | tuple) else [value]:
            command += [flag, str(item)]
    return command
