"""Runs tasks in order, shows their progress, and turns the results into an exit code. Tests: cli/test_run.py."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, MlpackError, TimedOutError, UnansweredError
from packager.cli.asking import has_terminal, require_yes
from packager.cli.console import OutputFormat, emit_data, emit_json_line, print_error, say
from packager.cli.deploy_questions import delete_existing, warn_of_lost_results
from packager.cli.printing import print_deployed
from packager.cli.watching import bad_end, print_finding, watch_and_record
from packager.cluster import deploy
from packager.cluster import sequence as use_case
from packager.kubernetes.verdict import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.cli.asking import Limit
    from packager.cluster.sequence import Task, TaskResult
    from packager.cluster.target import Target
    from packager.kubernetes.verdict import Verdict


@dataclass
class RunSession:
    """One call of `mlpack run`."""

    again: str  # the command line that continues this run
    is_cube: bool  # whether the tasks are those of an MLCube
    is_built: bool  # whether the package was built for this run
    limit: Limit  # holds the error of the timeout
    timeout: str | None  # the timeout of the whole run, as the user has written it; None for none
    seconds: float | None  # the timeout in seconds
    deadline: float | None  # the end of the timeout, by the runner's clock
    patience: float  # see `packager.cluster.follow`
    output: OutputFormat | None  # the form of the results on stdout; None for nothing
    follow_log: bool  # whether the logs are printed to stdout
    replace: bool  # whether finished or different jobs of the same names are deleted
    yes: bool  # whether every question is answered with yes
    resume: bool  # whether tasks that have succeeded are skipped
    keep_going: bool  # whether the remaining tasks are run after one has failed
    force_conflicts: bool  # whether fields of other field managers are taken over
    results: Path | None  # the folder of the records of all tasks; None for no record
    hold: float  # see `packager.cluster.deploy.prepare`
    targets: Sequence[Target] = ()  # the tasks, in order
    _current: Target | None = None
    _is_applied: bool = False
    _may_delete: set[str] = field(default_factory=set)

    def ask(self, tasks: Sequence[Task]) -> None:
        """Ask the questions about all tasks before the first one starts.

        Raises:
            UnansweredError: A job has to be replaced, and there is no terminal to ask on.
            MlpackError: The user answers no.
        """
        to_run = [task for task in tasks if not (self.resume and task.is_done)]
        for task in to_run if self.resume else ():
            if task.other_build:
                say(task.other_build)
        open_questions = [task for task in to_run if not (self.resume and task.has_failed)]
        obstacles = [sentence for task in open_questions for sentence in task.obstacles]
        if obstacles and not (self.replace or self.yes):
            what = "it" if len(obstacles) == 1 else "them"
            skipping = "" if self.resume else "; --resume skips what has succeeded with this build"
            unanswered = UnansweredError(
                f"{'; '.join(obstacles)}; nothing was done", hint=f"--replace deletes {what} and runs again{skipping}"
            )
            if has_terminal():
                for sentence in obstacles:
                    say(f"{sentence}.")
            require_yes(f"Delete {what} and run again?", unanswered=unanswered, declined="nothing was done")
        self._may_delete = {task.name for task in to_run if task.obstacles}
        if not self.is_cube:  # tasks of a cube write only to claims
            way_out = "--with pvc, nfs or host-path keeps them" if self.is_built else None
            warn_of_lost_results([task.prepared for task in to_run], yes=self.yes, way_out=way_out)

    def run(self, targets: Sequence[Target]) -> None:
        """Run the tasks, and print the result of each.

        Raises:
            ClusterError: A task has failed, or cannot run.
            TimedOutError: The timeout has passed.
        """
        self.targets = targets
        results: list[TaskResult] = []
        try:
            for result in use_case.run(
                targets, self._execute, resume=self.resume, keep_going=self.keep_going, hold=self.hold
            ):
                self._report(result, results)
                results.append(result)
            self._raise_failure(results)
        except MlpackError as error:
            self._add_rest(error, results)
            if self.output is OutputFormat.json:
                emit_json_line({"error": error.as_json()})
            raise
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            self._detach(results)
            raise

    def _execute(self, task: Task) -> tuple[tuple[Target, Verdict], ...]:
        """Deploy a task, and follow it to its end; see `packager.cluster.sequence.Execute`."""
        self._current = target = task.target
        self._is_applied = False
        overlays = [one.overlay for one in self.targets]
        say(f"{task.name} ({overlays.index(target.overlay) + 1} of {len(overlays)}): {target.shown_all}")
        what = "does not serve" if target.manifests.kind.serves else "has not ended"
        self.limit.timeout_error = TimedOutError(f"{target.shown} {what} after {self.timeout}")
        may_delete = self.yes or task.name in self._may_delete
        prepared = delete_existing(task.prepared, replace=self.replace, yes=may_delete)
        deployed = deploy.apply(prepared, force_conflicts=self.force_conflicts)
        self._is_applied = True
        if self.output is OutputFormat.yaml and target.overlay != overlays[0]:
            emit_data("---")
        if self.output in (OutputFormat.name, OutputFormat.yaml):
            emit_data(deploy.printed(target, self.output))
        print_deployed(deployed)
        waiting = replace(target, kubectl=replace(target.kubectl, deadline=self.deadline))
        verdicts, missing = watch_and_record(
            waiting,
            rendered=target.manifests.digest,
            timeout=self.seconds,
            patience=self.patience,
            follow_log=self.follow_log,
            results=self.results,
        )
        if missing and all(verdict.phase.is_good for _, verdict in verdicts):
            raise missing
        return verdicts

    def _report(self, result: TaskResult, before: Sequence[TaskResult]) -> None:
        """Print the result of a task; the error that ends the run is printed at the end of the run."""
        if self.output is OutputFormat.json:
            emit_json_line(result.as_json())
        if result.is_skipped:
            what = "serves" if result.phase is Phase.SERVING else "has succeeded"
            say(f"{result.task} is skipped: {result.target.shown_all} {what} already with this build")
            if later := [other.task for other in before if other.started]:
                say(f"note: {', '.join(later)} ran after that; --replace without --resume runs {result.task} again")
            return
        for finding in result.findings:
            print_finding(finding)
        for one, verdict in result.verdicts if result.is_good else ():
            say(f"{one.shown} serves: {verdict.summary}" if one.manifests.kind.serves else f"{one.shown} has succeeded")
            say(f"  its log: {one.command('logs')}")
        if self.keep_going and result.has_failed:
            print_error(_error(result))

    def _raise_failure(self, results: Sequence[TaskResult]) -> None:
        """Raise an error that names the failed tasks, if there are any."""
        failed = [result for result in results if result.has_failed]
        if not failed:
            return
        if not self.keep_going:
            raise _error(failed[0])
        have = "has" if len(failed) == 1 else "have"
        names = ", ".join(result.task for result in failed)
        raise ClusterError(f"{len(failed)} of {len(results)} tasks {have} failed: {names}")

    def _add_rest(self, error: MlpackError, results: Sequence[TaskResult]) -> None:
        """Add the tasks that were not run, and the command that continues, to an error."""
        if rest := self._rest(results):
            error.args = (f"{error}; not run: {', '.join(rest)}",)
        error.hint = "; ".join(part for part in (error.hint, f"go on with: {self.again}") if part)

    def _rest(self, results: Sequence[TaskResult]) -> list[str]:
        """Return the tasks that have not been started."""
        started = {result.task for result in results if result.phase != use_case.NOT_RUN}
        return [
            one.overlay
            for one in self.targets
            if one.overlay not in started and one.overlay != (self._current and self._current.overlay)
        ]

    def _detach(self, results: Sequence[TaskResult]) -> None:
        target = self._current
        if target is None:
            return
        say("")
        rest = self._rest(results)
        if any(result.task == target.overlay for result in results):
            say("stopped between two tasks")
        elif self._is_applied:
            say(f"detached; {target.shown_all} continues in the cluster")
        else:
            say(f"stopped before {target.shown_all} was known to be fully applied")
        if rest:
            say(f"  not run:    {', '.join(rest)}")
        say(f"  go on:      {self.again}")
        say(f"  look at it: {target.command('status')}")
        say(f"  delete it:  {target.command('delete')}")


def _error(result: TaskResult) -> ClusterError:
    """Return the error of a task that has failed."""
    if result.error is not None:
        return ClusterError(f"{result.task}: {result.error}", hint=result.error.hint)
    return bad_end(*result.verdicts[0])
