"""Follows a workload to its end, shows it, and turns the result into an exit code. Tests: cli/test_deploy.py."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace

from packager.base.errors import ClusterError, MlpackError, UnreachableError
from packager.cli.cluster_arguments import DeployOptions, seconds
from packager.cli.console import can_draw, say
from packager.cli.printing import (
    counted,
    curve_lines,
    finding_lines,
    log_lines,
    next_try,
    pod_rows,
    print_finding,
    print_parts,
    print_results,
)
from packager.cluster.logreader import with_log_end
from packager.cluster.logs import Feed, NewestLine, command_for_log
from packager.cluster.record import RunRecords
from packager.cluster.results import has_lasting_results
from packager.cluster.status import pods
from packager.cluster.target import Target
from packager.cluster.workload_watch import Update, follow, verdicts
from packager.kubernetes.verdict import Finding, Phase, Verdict

Verdicts = tuple[tuple[Target, Verdict], ...]
Show = Callable[[Update, str | None], None]
"""Shows an update, and the newest line of the main pod's log, if there is one."""

QUIET_SECONDS = 60.0
"""Seconds without data after which the copy of results is given up, as with `mlpack results`."""


def watch_and_record(
    target: Target, options: DeployOptions | None = None, deadline: float | None = None
) -> tuple[Verdicts, MlpackError | None]:
    """Follow the workloads to their ends, show their states, and record the run.

    Args:
        target: The opened overlay that contains the workloads.
        options: The options of the deploy; None for workloads that were deployed before.
        deadline: The end of the timeout, by the runner's clock.

    Returns:
        The verdict of each workload, and the error of the first record that is incomplete.

    Raises:
        TimedOutError: The timeout has passed.
        ClusterError: The cluster does not answer for a long time.
    """
    timeout = options.limit if options else None
    target = replace(target, kubectl=replace(target.kubectl, deadline=deadline))
    waiting = replace(target, kubectl=target.kubectl.within(timeout))
    with ExitStack() as stack:
        records = feed = newest = patience = rendered = None
        if options and options.results:
            records = stack.enter_context(RunRecords(waiting, options.results, patience=QUIET_SECONDS, tell=say))
        if options and options.follow:
            feed = Feed(waiting, also=records.begin if records else None)
            stack.enter_context(feed.streams)
        elif can_draw():
            newest = NewestLine(waiting)
            stack.enter_context(newest.streams)
        if options:
            patience, rendered = seconds(options.patience), target.manifests.digest
        watch = feed.watch if feed else records.watch if records else None
        updates = follow(target, rendered=rendered, timeout=timeout, patience=patience, watch=watch)
        with picture(target) if newest else nullcontext(Lines(target).show) as show:
            update = _show(updates, show, feed, newest, records)
            ended = verdicts(waiting, update)
        if records:
            return ended, _finish_records(records)
    return ended, None


def _show(
    updates: Iterator[Update], show: Show, feed: Feed | None, newest: NewestLine | None, records: RunRecords | None
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
        show(update, newest.read(update.main) if newest else None)
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
        say(*(curve_lines(record.curves) if record.curves else ()))
        say(f"recorded in {record.folder}: {counted(record.logs, 'log')}, manifests, mlops.env, verdict")
    return errors[0] if errors else None


class Lines:
    """Prints a line for each change, with the time since the start."""

    def __init__(self, target: Target) -> None:
        self._names = [one.shown for one in target.per_workload]
        self._clock = target.kubectl.runner.clock
        self._begin = self._clock()
        self._last = ""
        self._shown: set[str] = {""}
        self._lost = ""

    def show(self, update: Update, _newest: str | None) -> None:
        """Print the changes since the last update."""
        if update.silence:
            what = "answer" if isinstance(update.error, UnreachableError) else "report the state"
            if what != self._lost:
                self._say(f"the cluster does not {what} ({update.why_silent}); retrying until it does")
            self._lost = what
            return
        if self._lost:
            self._say("the cluster is reachable again")
            self._lost = ""
        verdict = update.verdict
        about = f"{self._names[update.index]} " if update.per_workload else ""
        now = f"{about}{verdict.phase}: {verdict.summary}"
        if now != self._last and not verdict.phase.is_reached:
            self._say(now)
        self._last = now
        if update.is_last:
            return
        for finding in verdict.findings:
            if finding.message == verdict.summary:
                self._shown.add(str(finding))
            self._say_news(finding)

    def _say_news(self, finding: Finding) -> None:
        """Print a finding with its log and its hint, except the parts that are printed already."""
        if self._is_new(str(finding)):
            self._say(str(finding))
        logged = log_lines(finding)
        if self._is_new("\n".join(logged)):
            say(*logged)
        if self._is_new(finding.hint or ""):
            self._say(f"hint: {finding.hint}")
        again = f"{finding.subject}: {next_try(finding)}" if finding.next_try else ""
        if self._is_new(again):
            self._say(again)

    def _is_new(self, text: str) -> bool:
        """Whether a text has not been shown; from now on it counts as shown."""
        is_new = text not in self._shown
        self._shown.add(text)
        return is_new

    def _say(self, text: str) -> None:
        say(f"{_elapsed(self._clock() - self._begin)}  {text}")


@contextmanager
def picture(target: Target) -> Iterator[Show]:
    """Give a function that draws a picture of the pods while the block runs, at each update."""
    from packager.cli.drawing import picture as drawn

    clock = target.kubectl.runner.clock
    begin, last = clock(), ""
    with drawn() as draw:

        def show(update: Update, newest: str | None) -> None:
            nonlocal last
            last = newest or last
            one = target.per_workload[update.index]
            head = f"{one.shown}  {update.verdict.phase}  {_elapsed(clock() - begin)}"
            notes = [line for finding in update.verdict.findings for line in finding_lines(finding, log=False)]
            if update.silence:
                how = "answered" if isinstance(update.error, UnreachableError) else "reported the state"
                why = "" if how == "answered" else f" ({update.error})"
                notes.insert(0, f"the cluster has not {how} for {update.silence:.0f} s{why}; retrying until it does")
            draw(head, pod_rows(pods(one, update.snapshot)) if update.snapshot else (), notes, last)

        yield show


def _elapsed(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def report_end(target: Target, verdict: Verdict) -> None:
    """Print how the workload ended, and the commands for the next step."""
    if not verdict.phase.is_good:
        for finding in verdict.findings:
            print_finding(with_log_end(target.kubectl, finding))
        raise bad_end(target, verdict)
    serves = verdict.phase is Phase.SERVING
    say(f"{target.shown} serves: {verdict.summary}" if serves else f"{target.shown} has succeeded")
    for finding in verdict.findings:
        print_finding(finding)
    say(f"  its log:     {target.command('logs')}")
    if not serves and has_lasting_results(target):
        say(f"  its results: {target.command('results', 'DIR')}")
    say(f"  delete it:   {target.command('delete')}")


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
