"""Follows a workload to its end, shows it, and turns the result into an exit code. Tests: cli/test_deploy.py."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cli.arguments import runs_folder
from packager.cli.console import can_draw, say
from packager.cli.plots import print_table
from packager.cli.printing import counted, print_parts, print_results
from packager.cli.progress import Lines, Live, lines
from packager.cluster.follow import follow, verdicts
from packager.cluster.logreader import with_log_end
from packager.cluster.logs import Feed, NewestLine, command_for_log
from packager.cluster.record import RunRecords, keep
from packager.cluster.results import has_lasting_results
from packager.kubernetes.verdict import Finding, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.errors import MlpackError
    from packager.cli.progress import View
    from packager.cluster.follow import Update
    from packager.cluster.target import Target
    from packager.kubernetes.verdict import Verdict

Verdicts = tuple[tuple["Target", "Verdict"], ...]

QUIET_SECONDS = 60.0
"""Seconds without data after which the copy of results is given up, as with `mlpack results`."""


def watch_and_record(
    target: Target,
    *,
    rendered: str | None = None,
    timeout: float | None = None,
    patience: float | None = None,
    follow_log: bool = False,
    results: Path | None = None,
) -> tuple[Verdicts, MlpackError | None]:
    """Follow the workloads to their ends, show their states, and record the run.

    Args:
        target: The opened overlay that contains the workloads.
        rendered: See `packager.cluster.follow`.
        timeout: See `packager.cluster.follow`.
        patience: See `packager.cluster.follow`.
        follow_log: Whether the log is printed to stdout.
        results: The folder of the records; None for a short record in the user's own folder.

    Returns:
        The verdict of each workload, and the error of the first record that is incomplete.

    Raises:
        TimedOutError: The timeout has passed.
        ClusterError: The cluster does not answer for a long time.
    """
    waiting = replace(target, kubectl=target.kubectl.within(timeout))
    with ExitStack() as stack:
        records = RunRecords(waiting, results, patience=QUIET_SECONDS, tell=say) if results else None
        if records:
            stack.enter_context(records)
        feed = Feed(waiting, also=records.begin if records else None) if follow_log else None
        newest = NewestLine(waiting) if can_draw() and not follow_log else None
        for reader in (feed, newest):
            if reader:
                stack.enter_context(reader.streams)
        watch = feed.watch if feed else records.watch if records else None
        updates = follow(target, rendered=rendered, timeout=timeout, patience=patience, watch=watch)
        with Live(target) if newest else Lines(target) as view:
            update = _show(updates, view, feed, newest, records)
            ended = verdicts(waiting, update)
        if records:
            return ended, _finish_records(records)
    kept = runs_folder()
    if kept and (error := keep(waiting, update, kept)):
        say(f"note: the run is not recorded: {error}")
    return ended, None


def _show(
    updates: Iterator[Update],
    view: View,
    feed: Feed | None,
    newest: NewestLine | None,
    records: RunRecords | None,
) -> Update:
    """Show updates and logs, record the run, and return the last update."""
    has_noted = False
    for update in updates:
        if update.snapshot and update.snapshot.unseen and not has_noted:
            warn_unseen(update.snapshot.unseen)
            has_noted = True
        if feed and update.main.snapshot and not update.main.silence:
            print_parts(feed.read(update.main.snapshot))
        if records:
            records.read(update)
        view.show(update, newest.read(update.main) if newest else None)
    if feed:
        print_parts(feed.finish())
        if feed.error:
            say(f"the end of the log is missing: {feed.error}")
    return update


def _finish_records(records: RunRecords) -> MlpackError | None:
    """Finish the record of each workload, print where it is, and return the error of the first that is incomplete."""
    errors: list[MlpackError] = []
    for record in records.finish():
        errors += [error for copied in record.results if (error := print_results(copied))]
        errors += [error for error in (record.no_results, record.no_logs) if error]
        if record.curves:
            print_table(record.curves)
        say(f"recorded in {record.folder}: {counted(record.logs, 'log')}, manifests, mlops.env, verdict")
    return errors[0] if errors else None


def report_end(target: Target, verdict: Verdict) -> None:
    """Print how the workload ended, and the commands for the next step."""
    if verdict.phase is Phase.SUCCEEDED:
        say(f"{target.shown} has succeeded")
        for finding in verdict.findings:
            print_finding(finding)
        say(f"  its log:     {target.command('logs')}")
        if has_lasting_results(target):
            say(f"  its results: {target.command('results', 'DIR')}")
        say(f"  delete it:   {target.command('delete')}")
        return
    if verdict.phase is Phase.SERVING:
        say(f"{target.shown} serves: {verdict.summary}")
        for finding in verdict.findings:
            print_finding(finding)
        say(f"  its log:     {target.command('logs')}")
        say(f"  delete it:   {target.command('delete')}")
        return
    for finding in verdict.findings:
        print_finding(with_log_end(target.kubectl, finding))
    raise bad_end(target, verdict)


def bad_end(target: Target, verdict: Verdict) -> ClusterError:
    """Return the error for a workload that has failed or cannot run."""
    if verdict.phase is Phase.FAILED:
        return ClusterError(
            f"{target.shown} has failed: {verdict.summary}", hint=f"the whole log: {command_for_log(target, verdict)}"
        )
    if verdict.phase is Phase.ABSENT:
        return ClusterError(f"{target.shown}: {verdict.summary}", hint=target.command("status"))
    reason = next(finding.reason for finding in verdict.findings if finding.blocks)
    if target.manifests.kind.serves:
        return ClusterError(
            f"{target.shown} does not serve what was deployed: {reason}; it was left as it is",
            hint=f"correct it and deploy again, which needs no --replace, or delete it: {target.command('delete')}",
        )
    return ClusterError(
        f"{target.shown} cannot run: {reason}; it was left as it is",
        hint=f"correct it and deploy again (--replace), or delete it: {target.command('delete')}",
    )


def warn_unseen(unseen: str | None) -> None:
    """Print why findings may be missing, if the user may not read all objects."""
    if unseen:
        say(f"reasons may be missing: {unseen}")


def print_finding(finding: Finding) -> None:
    """Print a finding with its hint and log."""
    for line in lines(finding):
        say(line)
