"""`mlpack run`: runs overlays of a package one after the other, and stops at the first that fails."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from packager.base.errors import ClusterError, MlpackError, TimedOutError, UsageError
from packager.base.paths import argument
from packager.cli.arguments import SiteFile, VariantOptions, announced_site
from packager.cli.asking import Limit, has_terminal, limited, require_yes
from packager.cli.cluster_arguments import ClusterOptions, DeployOptions, seconds
from packager.cli.commands import context
from packager.cli.console import Form, emit_data, emit_json, print_error, progress, say
from packager.cli.deploy import delete_existing, not_ended_error, print_dry_run, warn_of_lost_results
from packager.cli.host import host
from packager.cli.printing import print_deployed, print_finding
from packager.cli.registry_arguments import SignatureOptions, local_package
from packager.cli.watching import Verdicts, bad_end, watch_and_record
from packager.cluster import claims
from packager.cluster import deploy as deploying
from packager.cluster import sequence as use_case
from packager.cluster.runnable import RunRequest, runnable
from packager.cluster.sequence import Runnable, Task, TaskResult
from packager.cluster.target import Target
from packager.kubernetes.verdict import Phase


class SourceOptions(VariantOptions, frozen=True):
    """The options of a build, for a model that is run."""

    site_file: SiteFile = None

    def source(self, path: Path) -> RunRequest:
        """Return the request to run what is at a path."""
        return RunRequest(path, self.request(), partial(announced_site, self.site_file))


def run(
    build: SourceOptions,
    options: DeployOptions,
    signatures: SignatureOptions,
    at: ClusterOptions,
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
    output: Annotated[
        Form | None,
        typer.Option("-o", "--output", help="json: a line for each task, at its end. name, yaml: what was applied."),
    ] = None,
    claim_size: Annotated[
        str | None, typer.Option("--claim-size", metavar="SIZE", help="Create claims that do not exist, of this size.")
    ] = None,
    claim_class: Annotated[
        str | None, typer.Option("--claim-class", metavar="NAME", help="The storage class of claims that are created.")
    ] = None,
    claim_access: Annotated[
        Literal["ReadWriteOnce", "ReadWriteMany"] | None,
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
    limit, hold = options.limit, options.hold_seconds
    seconds(options.patience)
    if options.follow and output:
        raise UsageError("--follow and --output cannot be combined")
    claims.check_options(claim_size, claim_class, claim_access)
    names = _names(task)
    target = local_package(target, signatures.trust())
    timeout_error = TimedOutError(f"no task of {target} was started within {options.timeout}")
    with limited(limit, timeout_error) as clock:
        package = runnable(build.source(target), tell=say, progress=progress)
        if package.namespace and at.namespace is None:
            say(f"namespace {package.namespace}, as the cube says; -n names another one")
        client = at.client(package.namespace)
        deadline = client.within(limit).deadline
        with use_case.open_tasks(package, names, client, person=host().person, tell=say) as targets:
            for one in targets if options.verify else ():
                deploying.check(one, *options.accepted())
            if options.dry_run:
                for one in targets:
                    print_dry_run(one, options, output)
                return
            again = [*_again(target), *(["--task", ",".join(one.overlay for one in targets)] if names else [])]
            session = RunSession(
                options,
                targets,
                shlex.join([*again, "--resume"]),
                clock,
                deadline,
                output,
                resume=resume,
                keep_going=keep_going,
            )
            session.ask([use_case.task(one, hold) for one in targets], package)
            _create_claims(targets, claim_size, claim_class, claim_access or "ReadWriteOnce")
            session.run()


def _create_claims(targets: Sequence[Target], size: str | None, storage_class: str | None, access: str) -> None:
    """Create missing claims if the user or the package says how; print a note about each of the others."""
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


def _again(target: Path) -> list[str]:
    """Return the command line of the same run, without its tasks and the options that apply to this run only."""
    command = ["mlpack", "run", argument(target)]
    here = context()
    for option in here.command.params:
        value = here.params.get(option.name or "")
        if option.name in _NOT_AGAIN or value is None or value == option.get_default(here):
            continue
        if isinstance(value, bool):
            command.append((option.opts if value else option.secondary_opts)[0])
            continue
        flag = max(option.opts, key=len)
        for item in value if isinstance(value, list | tuple) else [value]:
            command += [flag, str(item)]
    return command


@dataclass
class RunSession:
    """One call of `mlpack run`."""

    options: DeployOptions
    targets: Sequence[Target]  # the tasks, in order
    again: str  # the command line that continues this run
    clock: Limit  # holds the error of the timeout
    deadline: float | None  # the end of the timeout, by the runner's clock
    output: Form | None  # the form of the results on stdout; None for nothing
    resume: bool  # whether tasks that have succeeded are skipped
    keep_going: bool  # whether the remaining tasks are run after one has failed
    _current: Target | None = None
    _is_applied: bool = False
    _may_delete: set[str] = field(default_factory=set)
    _results: list[TaskResult] = field(default_factory=list)

    def ask(self, tasks: Sequence[Task], package: Runnable) -> None:
        """Ask the questions about all tasks of a package before the first one starts.

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
        if obstacles and not (self.options.replace or self.options.yes):
            what = "it" if len(obstacles) == 1 else "them"
            skipping = "" if self.resume else "; --resume skips what has succeeded with this build"
            unanswered = f"{'; '.join(obstacles)}; nothing was done"
            hint = f"--replace deletes {what} and runs again{skipping}"
            say(*(f"{sentence}." for sentence in (obstacles if has_terminal() else ())))
            require_yes(f"Delete {what} and run again?", unanswered=unanswered, hint=hint)
        self._may_delete = {task.name for task in to_run if task.obstacles}
        if not package.is_cube:  # tasks of a cube write only to claims
            is_built = package.package != package.source
            way_out = "--with pvc, nfs or host-path keeps them" if is_built else None
            warn_of_lost_results([task.prepared for task in to_run], yes=self.options.yes, way_out=way_out)

    def run(self) -> None:
        """Run the tasks, and print the result of each.

        Raises:
            ClusterError: A task has failed, or cannot run.
            TimedOutError: The timeout has passed.
        """
        hold = self.options.hold_seconds
        try:
            for result in use_case.run(
                self.targets, self._execute, resume=self.resume, keep_going=self.keep_going, hold=hold
            ):
                self._report(result)
                self._results.append(result)
            self._raise_failure()
        except MlpackError as error:
            # The tasks that were not run, and the command that continues, are part of the error.
            if rest := self._rest():
                error.args = (f"{error}; not run: {', '.join(rest)}",)
            error.hint = "; ".join(part for part in (error.hint, f"go on with: {self.again}") if part)
            if self.output == "json":
                emit_json({"error": error.as_json()}, indent=None)
            raise
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            self._detach()
            raise

    def _execute(self, task: Task) -> Verdicts:
        """Deploy a task, and follow it to its end; see `packager.cluster.sequence.Execute`."""
        options = self.options
        self._current = target = task.target
        self._is_applied = False
        overlays = [one.overlay for one in self.targets]
        say(f"{task.name} ({overlays.index(target.overlay) + 1} of {len(overlays)}): {target.shown_all}")
        self.clock.timeout_error = TimedOutError(str(not_ended_error(target, options)))
        may_delete = options.yes or task.name in self._may_delete
        prepared = delete_existing(task.prepared, replace=options.replace, yes=may_delete)
        deployed = deploying.apply(prepared, force_conflicts=options.force_conflicts)
        self._is_applied = True
        if self.output == "yaml" and target.overlay != overlays[0]:
            emit_data("---")
        if self.output in ("name", "yaml"):
            emit_data(deploying.printed(target, self.output))
        print_deployed(deployed)
        verdicts, missing = watch_and_record(target, options, self.deadline)
        if missing and all(verdict.phase.is_good for _, verdict in verdicts):
            raise missing
        return verdicts

    def _report(self, result: TaskResult) -> None:
        """Print the result of a task; the error that ends the run is printed at the end of the run."""
        if self.output == "json":
            emit_json(result.as_json(), indent=None)
        if result.is_skipped:
            what = "serves" if result.phase is Phase.SERVING else "has succeeded"
            say(f"{result.task} is skipped: {result.target.shown_all} {what} already with this build")
            if later := [other.task for other in self._results if other.started]:
                say(f"note: {', '.join(later)} ran after that; --replace without --resume runs {result.task} again")
            return
        for finding in result.findings:
            print_finding(finding)
        for one, verdict in result.verdicts if result.is_good else ():
            say(f"{one.shown} serves: {verdict.summary}" if one.manifests.kind.serves else f"{one.shown} has succeeded")
            say(f"  its log: {one.command('logs')}")
        if self.keep_going and result.has_failed:
            print_error(_error(result))

    def _raise_failure(self) -> None:
        """Raise an error that names the failed tasks, if there are any."""
        failed = [result for result in self._results if result.has_failed]
        if failed and not self.keep_going:
            raise _error(failed[0])
        if failed:
            have = "has" if len(failed) == 1 else "have"
            names = ", ".join(result.task for result in failed)
            raise ClusterError(f"{len(failed)} of {len(self._results)} tasks {have} failed: {names}")

    def _rest(self) -> list[str]:
        """Return the tasks that have not been started."""
        started = {result.task for result in self._results if result.phase != use_case.NOT_RUN}
        if self._current:
            started.add(self._current.overlay)
        return [one.overlay for one in self.targets if one.overlay not in started]

    def _detach(self) -> None:
        target = self._current
        if target is None:
            return
        if any(result.task == target.overlay for result in self._results):
            state = "stopped between two tasks"
        elif self._is_applied:
            state = f"detached; {target.shown_all} continues in the cluster"
        else:
            state = f"stopped before {target.shown_all} was known to be fully applied"
        rest = self._rest()
        say(
            "",
            state,
            *([f"  not run:    {', '.join(rest)}"] if rest else ()),
            f"  go on:      {self.again}",
            f"  look at it: {target.command('status')}",
            f"  delete it:  {target.command('delete')}",
        )


def _error(result: TaskResult) -> ClusterError:
    """Return the error of a task that has failed."""
    if result.error is not None:
        return ClusterError(f"{result.task}: {result.error}", hint=result.error.hint)
    return bad_end(*result.verdicts[0])
