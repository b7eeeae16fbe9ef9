"""Finds pods that a workload lost before it ended, and keeps what later snapshots may not show of deleted pods.

Tests: diagnosis/test_losses.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.kubernetes.objects import (
    is_being_deleted,
    is_running,
    last_seen,
    moment,
    name,
    sentence,
    shown,
    status,
    uid,
)
from packager.kubernetes.pods import (
    CAUSES,
    DELETED,
    deletion_cause,
    ended_at,
    failure,
    has_ended,
    started_at,
    stop_requested_at,
    stopped,
)
from packager.kubernetes.remedy import RUN_AGAIN
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.kinds import Workload


LOST = "WorkerLost"

VANISHED = "Vanished"
"""A main pod that was deleted before its end was seen: it may have succeeded."""


@dataclass(frozen=True, slots=True)
class Past:
    """The facts from earlier snapshots."""

    failures: tuple[Finding, ...] = ()  # the failures of pods, some of which may be deleted
    # the pods that were stopped before the workload's end; None without earlier snapshots
    losses: tuple[Finding, ...] | None = None
    unreported_end: float = 0  # seconds for which the workload's end has been seen, and not by its operator
    deletion_seconds: float = 0  # seconds for which the workload has been seen to be deleted


class Memory:
    """Collects the past from one snapshot after the other."""

    def __init__(self, kind: Workload) -> None:
        self._kind = kind
        self._failures: dict[str, Finding] = {}
        self._main: Object | None = None
        self._is_over = False
        self._workers: dict[str, str] = {}
        self._losses: dict[str, Finding] = {}
        self._since: dict[str, float] = {}

    def add(self, snapshot: Snapshot, now: float) -> Past:
        """Return the past, including `snapshot`, which was taken at `now`."""
        for finding in map(failure, snapshot.pods):
            if finding:
                self._failures[finding.subject] = finding
        self._watch(snapshot)
        unreported_end = self._kind.unreported_end(snapshot) is not None
        return Past(
            tuple(self._failures.values()),
            tuple(self._losses.values()),
            unreported_end=self._lasted("unreported_end", unreported_end, now),
            deletion_seconds=self._lasted("going", is_being_deleted(snapshot.workload), now),
        )

    def _lasted(self, what: str, holds_now: bool, now: float) -> float:  # noqa: FBT001 - a fact, not a switch
        if not holds_now:
            self._since.pop(what, None)
            return 0
        return now - self._since.setdefault(what, now)

    def _watch(self, snapshot: Snapshot) -> None:
        """Remember the pods that were stopped before the main pod's end; its new attempt begins without losses."""
        main = self._kind.main(snapshot.pods)
        if main is None:
            self._note_main_gone(snapshot)
            return
        if self._main is None or uid(main) != uid(self._main):
            self._start_attempt(main)
        if self._kind.stops_its_pods(snapshot):
            return
        if is_running(main):
            self._watch_workers(snapshot)
        # What took a worker away may be told only after the main pod has ended of that: in an event, or by the time at
        # which the controller began to clean up.
        seen = worker_losses(self._kind, snapshot, main) if self._is_over else losses(self._kind, snapshot)
        for finding in seen:
            self._losses.setdefault(finding.subject, finding)
        self._is_over = has_ended(main)

    def _start_attempt(self, main: Object) -> None:
        # Its spec and status are not needed later, and a server follows a thousand jobs.
        self._main = {key: value for key, value in main.items() if key not in {"spec", "status"}}
        self._is_over, self._workers = False, {}
        # If the beginning of an attempt was not observed, its first workers are not known.
        self._losses = {
            finding.subject: finding for finding in self._losses.values() if finding.reason == LOST and has_ended(main)
        }

    def _watch_workers(self, snapshot: Snapshot) -> None:
        workers = {name(worker): worker for worker in self._kind.workers(snapshot.pods)}
        for worker in workers.values():
            self._workers.setdefault(name(worker), uid(worker))
        for worker_name, worker_uid in self._workers.items():
            current = workers.get(worker_name)
            if current is None or uid(current) != worker_uid:
                message = "it was deleted"
            elif finding := stopped(current, snapshot):
                message = finding.message
            else:
                continue
            loss = Finding(LOST, f"pod/{worker_name}", f"{message} while the job was running", RUN_AGAIN, blocks=False)
            self._losses.setdefault(loss.subject, loss)

    def _note_main_gone(self, snapshot: Snapshot) -> None:
        """Describe a deleted main pod whose end was not observed."""
        if self._main is None or self._is_over or self._kind.stops_its_pods(snapshot):
            return
        subject = shown(self._main)
        loss = self._losses.get(subject)
        if loss is None or loss.reason == VANISHED:
            gone = f"it no longer exists, and how it ended is unknown: {deletion_cause(self._main, snapshot)}"
            seen = {finding.subject: finding for finding in losses(self._kind, snapshot)}
            self._losses[subject] = seen.get(subject) or Finding(VANISHED, subject, gone, RUN_AGAIN, blocks=False)


def losses(kind: Workload, snapshot: Snapshot) -> list[Finding]:
    """Return the pods that were stopped before the workload had ended: the main pod, or lost workers."""
    main = kind.main(snapshot.pods)
    if main is None:
        gone = _main_gone(kind, snapshot)
        return [gone] if gone else []
    failed = failure(main)
    if failed and status(main).get("reason") not in (None, "DeadlineExceeded"):
        return [failed]  # its node says so, and why
    if finding := stopped(main, snapshot):
        return [replace(finding, log=failed.log if failed else ())]
    return list(worker_losses(kind, snapshot, main))


def worker_losses(kind: Workload, snapshot: Snapshot, main: Object) -> Iterator[Finding]:
    """Yield the workers that were stopped while the main pod ran; after that, controllers delete them anyway."""
    for worker in kind.workers(snapshot.pods):
        stop_requested = stop_requested_at(worker)
        finding = stopped(worker, snapshot)
        if finding and stop_requested and _is_meanwhile(stop_requested, main, snapshot):
            yield replace(finding, reason=LOST, message=f"{finding.message} while the job was running")
    for event in snapshot.killed():
        pod = event["involvedObject"]["name"]
        if kind.role(name(snapshot.workload), pod) == "worker" and _is_meanwhile(
            moment(last_seen(event)), main, snapshot
        ):
            yield Finding(
                LOST,
                f"pod/{pod}",
                f"{_cause(snapshot, event)}, which stopped it while the job was running",
                RUN_AGAIN,
                blocks=False,
            )


def _is_meanwhile(when: datetime, main: Object, snapshot: Snapshot) -> bool:
    """Whether something happened while the last main pod ran, before its controller began to clean up after that."""
    completed = status(snapshot.workload).get("completionTime")
    begin, end = started_at(main), ended_at(main)
    if begin is None or when < begin or (completed and when >= moment(completed)):
        return False
    return end is None or when < end or (completed is not None and when == end)


def _main_gone(kind: Workload, snapshot: Snapshot) -> Finding | None:
    """Return the cause that stopped the deleted last main pod; a kubelet reports Killing only for running pods."""
    workload = name(snapshot.workload)
    makers = (snapshot.workload, *snapshot.children)
    made = [event for maker in makers for event in snapshot.about(maker, "SuccessfulCreate")]
    last = sentence(made[-1]).rpartition(" ")[2] if made else None
    for event in snapshot.killed():
        pod = event["involvedObject"]["name"]
        if kind.role(workload, pod) == "main" and pod == (last or pod):
            return Finding(
                DELETED,
                f"pod/{pod}",
                f"{_cause(snapshot, event)}, which stopped it",
                RUN_AGAIN,
                blocks=False,
            )
    return None


def _cause(snapshot: Snapshot, killed: Object) -> str:
    pod = killed["involvedObject"].get("uid")
    for event in snapshot.events:
        if event["involvedObject"].get("uid") == pod and event.get("reason") in CAUSES:
            return CAUSES[event["reason"]]
    return deletion_cause({"metadata": {"uid": pod}}, snapshot)
