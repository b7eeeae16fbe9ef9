"""`mlpack delete`: deletes a package from a cluster, and nothing that belongs to others."""

from typing import Annotated

import typer

from packager.base.errors import ClusterError, TimedOutError
from packager.cli.arguments import OverlayOption, PackageToRead, Yes
from packager.cli.asking import limited, require_yes
from packager.cli.cluster_arguments import ClusterOptions, open_target, seconds
from packager.cli.console import Output, emit_output, say
from packager.cluster import delete as use_case
from packager.cluster.delete import Deleted


def delete(
    at: ClusterOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    keep_results: Annotated[bool, typer.Option("--keep-results", help="Keep the claims and their data.")] = False,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything is deleted.")] = True,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait at most.")] = "5m",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; print what would be deleted.")] = False,
    output: Output = None,
) -> None:
    """Delete what the package has applied, and wait until it is deleted. Objects that no longer exist are no error.

    Objects of other owners are listed and kept, with exit code 7. It asks before it deletes what another person has
    deployed, or another build.
    """
    longest = seconds(timeout)
    timeout_error = TimedOutError(
        f"{package} may not be fully deleted after {timeout}", hint="run it again to continue waiting"
    )
    client = at.client().within(longest or None)
    with limited(longest, timeout_error), open_target(package, overlay, client, to_delete=True) as target:
        prepared = use_case.prepare(target, keep_results=keep_results)
        if (remark := prepared.remark) and not (yes or dry_run):
            unanswered, hint = f"{remark}; nothing was deleted", "-y deletes it anyway"
            question = f"{remark}. Delete it anyway?"
            require_yes(question, unanswered=unanswered, hint=hint, declined="nothing was deleted")
        say(*(f"kept: {claim}" for claim in prepared.kept))
        if dry_run:
            planned = use_case.planned(prepared)
            emit_output(planned.as_json(), planned.objects, output)
            if planned.others:
                say(f"would be left, because it does not belong to the package alone: {planned.left}")
            say("dry run: nothing was deleted")
            return
        deleted = use_case.delete(prepared, timeout=longest if wait else None)
        if output is not None:
            emit_output(deleted.as_json(), deleted.objects, output)
        report(deleted)


def report(deleted: Deleted) -> None:
    """Print the result of the delete. Raises ClusterError if objects of others were left."""
    how = "deleted" if deleted.is_gone else "being deleted"
    say(*(f"{workload} does not exist" for workload in deleted.missing))
    if deleted.others:
        what = f"{deleted.left}; everything else is {how}" if deleted.objects else deleted.left
        raise ClusterError(f"not deleted, because it does not belong to the package alone: {what}")
    workloads = [name for name in deleted.workload.split(", ") if name not in deleted.missing]
    names = workloads or deleted.objects
    say(f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} {how}" if names else "nothing was deleted")
