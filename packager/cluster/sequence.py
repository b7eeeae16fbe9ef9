"""Runs overlays of a package one after the other: each is deployed when the one before has reached its goal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from packager.base.errors import ClusterError, UnansweredError, UnreachableError, UsageError
from packager.base.paths import is_folder
from packager.base.problems import similar
from packager.base.process import Tell
from packager.cluster.deploy import PreparedDeploy, prepare
from packager.cluster.logreader import with_log_end
from packager.cluster.ownership import RENDERED
from packager.cluster.status import status
from packager.cluster.target import Target, rendered_target
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.objects import annotation
from packager.kubernetes.verdict import Finding, Phase, Verdict
from packager.modelspec.importers.cubepaths import WORKSPACE_FOLDER
from packager.modelspec.importers.mlcube import overlay_of
from packager.package.opened import Package, opened

NOT_RUN = "not run"
"""The phase of a task that has not been started."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """A package that can be run."""

    source: Path  # the path that the user has named: the package, or the MLCube or spec that it was built from
    package: Path  # the path of the package
    is_cube: bool = False  # whether the package was built from an MLCube
    namespace: str | None = None  # the namespace that the cube names; None if it names none

    @property
    def workspace(self) -> Path | None:
        """The folder with the workspace of an MLCube; None for other sources."""
        if not self.is_cube:
            return None
        return (self.source if is_folder(self.source) else self.source.parent) / WORKSPACE_FOLDER

    def overlay(self, task: str, overlays: Sequence[str]) -> str:
        """Return the overlay of a task; `task` is the name of an overlay, or the name of a task in an MLCube."""
        if not self.is_cube or task in overlays:
            return task
        return overlay_of(task)


@dataclass(frozen=True, slots=True)
class Task:
    """A task, and the workloads of an earlier run."""

    target: Target  # the overlay of the task, and the cluster
    prepared: PreparedDeploy  # the deploy of the overlay, with the existing objects
    # the verdict of each existing workload of the same build; empty for another build
    verdicts: tuple[Verdict, ...] = ()

    @property
    def name(self) -> str:
        """The name of the task, which is the name of its overlay."""
        return self.target.overlay

    @property
    def obstacles(self) -> tuple[str, ...]:
        """A sentence about each workload that must be deleted first."""
        return tuple(one.obstacle for one in self.prepared.per_workload if one.obstacle is not None)

    @property
    def is_done(self) -> bool:
        """Whether the same build has succeeded already, or serves."""
        return bool(self.verdicts) and all(verdict.phase.is_good for verdict in self.verdicts)

    @property
    def has_failed(self) -> bool:
        """Whether the same build, deployed by the same user, has failed."""
        is_of_same_user = self.prepared.situation.deployed_by == self.target.person
        return is_of_same_user and any(verdict.phase is Phase.FAILED for verdict in self.verdicts)

    @property
    def other_build(self) -> str | None:
        """A sentence about an existing workload of the same name that another build has deployed; None without one."""
        if self.prepared.is_new or self.verdicts:
            return None
        by = self.prepared.situation.deployed_by
        origin = f"deployed by {by}" if by else "not deployed by mlpack"
        return f"{self.target.shown} exists, but is not of this build ({origin}), so {self.name} is not skipped"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task."""

    target: Target  # the overlay of the task
    phase: str  # the phase of the workload, or NOT_RUN
    summary: str  # the phase as a short sentence
    findings: tuple[Finding, ...] = ()  # the reasons for the phase
    started: datetime | None = None  # the time of the deploy; None if this run has not deployed the task
    ended: datetime | None = None  # the time at which the end was observed
    verdicts: tuple[tuple[Target, Verdict], ...] = ()  # each workload with its verdict, for messages
    is_skipped: bool = False  # whether the task had succeeded before
    # the error that prevented or ended the task; None if it has reached its goal or was not run
    error: ClusterError | UnansweredError | None = None

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.target.overlay

    @property
    def is_good(self) -> bool:
        """Whether the task has reached its goal: it has succeeded, or serves."""
        return self.phase in (Phase.SUCCEEDED, Phase.SERVING)

    @property
    def has_failed(self) -> bool:
        """Whether the task was run, or could not be started, and has not reached its goal."""
        return not self.is_good and self.phase != NOT_RUN

    def as_json(self) -> dict[str, Any]:
        """Return the result for `-o json`."""
        return {
            "task": self.task,
            "workload": self.target.shown_all,
            "phase": str(self.phase),
            "summary": self.summary,
            "skipped": self.is_skipped,
            "findings": [finding.as_json() for finding in self.findings],
            "started": f"{self.started:%Y-%m-%dT%H:%M:%SZ}" if self.started else None,
            "ended": f"{self.ended:%Y-%m-%dT%H:%M:%SZ}" if self.ended else None,
        }


Execute = Callable[[Task], "tuple[tuple[Target, Verdict], ...]"]
"""Deploys a task, follows it to its end, and returns the verdict on each workload; if one has failed, only on this."""


@contextmanager
def open_tasks(
    runnable: Runnable, names: Sequence[str] | None, kubectl: Kubectl, *, person: str, tell: Tell
) -> Iterator[tuple[Target, ...]]:
    """Open a package, and render the overlays that are to run, in order.

    `names` are overlays, or tasks of an MLCube; None is the package's sequence, or else its default overlay.
    """
    with opened(runnable.package) as package:
        overlays = _chosen(package, runnable, names)
        yield tuple(rendered_target(package, name, kubectl, person=person, tell=tell) for name in overlays)


def _chosen(package: Package, runnable: Runnable, names: Sequence[str] | None) -> tuple[str, ...]:
    if not package.overlays:
        raise UsageError(f"{runnable.source} has no overlays")
    listed = ", ".join(package.overlays)
    if names is None and runnable.is_cube and not package.sequence and len(package.overlays) > 1:
        raise UsageError(f"{runnable.source} has several tasks: {listed}", hint="--task A,B runs A, and then B")
    overlays = [runnable.overlay(name, package.overlays) for name in names or ()]
    overlays = overlays or list(package.sequence or package.overlays[:1])
    for index, name in enumerate(overlays):
        if name not in package.overlays:
            message = f"{runnable.source} has no task {name!r}; it has: {listed}"
            raise UsageError(message, hint=similar(name, package.overlays))
        if name in overlays[:index]:
            raise UsageError(f"the task {name!r} is listed twice", hint="run it again when it has ended")
    return tuple(overlays)


def task(target: Target, hold: float = 0) -> Task:
    """Return a task with the workloads of an earlier run; see `packager.cluster.deploy.prepare` for `hold`."""
    prepared = prepare(target, hold)
    target, per_workload = prepared.target, prepared.per_workload
    live = [one.situation.live for one in per_workload]
    is_same = all(item is not None and annotation(item, RENDERED) == target.manifests.digest for item in live)
    return Task(target, prepared, tuple(status(one.target).verdict for one in per_workload) if is_same else ())


def run(
    all_targets: Sequence[Target], execute: Execute, *, resume: bool = False, hold: float = 0
) -> Iterator[TaskResult]:
    """Run tasks one after the other until one fails, and yield the result of each; see `task` for `hold`.

    `resume` skips tasks that have succeeded with the same build.
    """
    has_failed = False
    for target in all_targets:
        if has_failed:
            yield TaskResult(target, NOT_RUN, "a task before it has failed")
            continue
        result = _run(target, execute, resume=resume, hold=hold)
        yield result
        has_failed = result.has_failed


def _run(target: Target, execute: Execute, *, resume: bool, hold: float) -> TaskResult:
    now = target.kubectl.runner.now
    started = now()
    try:
        current = task(target, hold)
        if resume and current.is_done:
            first = current.verdicts[0]
            return TaskResult(target, first.phase, first.summary, first.findings, is_skipped=True)
        verdicts = execute(current)
    except UnreachableError:
        raise
    except (ClusterError, UnansweredError) as error:
        return TaskResult(target, Phase.FAILED, str(error), started=started, ended=now(), error=error)
    one, verdict = verdicts[0]
    findings = (
        verdict.findings
        if verdict.phase.is_good
        else tuple(with_log_end(one.kubectl, item) for item in verdict.findings)
    )
    return TaskResult(target, verdict.phase, verdict.summary, findings, started, now(), verdicts)
