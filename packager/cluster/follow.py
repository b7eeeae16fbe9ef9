"""Snapshots, one after the other -> what has become of a workload: the wait that tells the truth.

It polls rather than watches: a poll has no state to lose when the connection breaks or the API server restarts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from packager.cluster.diagnosis import diagnose, pod_failures
from packager.cluster.manifests import DEPLOYED_BY, RENDERED
from packager.cluster.objects import annotation, is_going, is_running, name, shown, uid
from packager.cluster.verdict import Finding, Phase, Verdict
from packager.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.cluster.engines import Engine
    from packager.cluster.snapshot import Snapshot

EVERY = 1.0
"""Seconds from one look to the next, unless they take more than a third of that."""

SILENCE = 300.0
"""Seconds without an answer after which the cluster counts as gone."""


class Reader(Protocol):
    """Takes a snapshot."""

    def __call__(self, *, events: bool) -> Snapshot | None:
        """Return what is there; None when the workload is not.

        Args:
            events: Whether to ask for events too, of which a namespace may hold thousands.

        Raises:
            ClusterError: The cluster did not answer, or refused to.
        """


@dataclass(frozen=True, slots=True)
class Update:
    """What was seen in one look.

    Attributes:
        verdict: What can be said.
        snapshot: What it is said of; the last one seen, while the cluster does not answer.
        silence: Seconds for which the cluster has not answered; 0 when it has.
        error: What kept it from answering.
        is_last: Whether waiting on makes no sense: it is over, or nothing but a person can mend it.
    """

    verdict: Verdict
    snapshot: Snapshot | None
    silence: float = 0
    error: ClusterError | None = None
    is_last: bool = False


def follow(
    read: Reader,
    engine: Engine,
    *,
    rendered: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Update]:
    """Yield what becomes of a workload, about once in a second, until the last word is said.

    Args:
        read: Takes a snapshot.
        engine: Of the workload's kind.
        rendered: What the workload's annotation says that was applied; another value means another deploy.
        clock: Seconds, ever growing.
        sleep: Waits for seconds.

    Raises:
        ClusterError: The cluster refuses to answer from the start, or has not answered for SILENCE seconds.
    """
    judge = _Judge(engine, rendered)
    last: Update | None = None
    heard = clock()
    while True:
        begin = clock()
        try:
            snapshot = read(events=judge.wants_events(last))
        except ClusterError as error:
            silence = clock() - heard
            if last is None or silence > SILENCE:
                raise
            # A restarted API server may forbid everything for a moment, before it has read its roles: whatever it
            # says, it is believed only when it keeps saying it.
            yield replace(last, silence=max(silence, EVERY), error=error)
        else:
            heard = clock()
            last = judge.judge(snapshot, heard)
            yield last
            if last.is_last:
                return
        took = clock() - begin
        # Where a look takes long, the machine is busy or the cluster is: two thirds of the time are left to others.
        sleep(max(EVERY - took, 2 * took))


class _Judge:
    """Turns snapshots into updates, with what earlier ones showed that later ones may not."""

    def __init__(self, engine: Engine, rendered: str | None) -> None:
        self._engine = engine
        self._rendered = rendered
        self._identity: str | None = None
        self._failures: dict[str, Finding] = {}
        self._since: dict[str, float] = {}
        self._main = ""
        self._workers: dict[str, str] = {}
        self._lost: dict[str, Finding] = {}
        self._looks = 0

    def wants_events(self, last: Update | None) -> bool:
        """Whether to ask for events: always while the workload does not run, and now and then when it does."""
        self._looks += 1
        return last is None or last.verdict.phase is not Phase.RUNNING or self._looks % 10 == 0

    def judge(self, snapshot: Snapshot | None, now: float) -> Update:
        """Return what `snapshot`, taken at `now`, means after those before it."""
        if snapshot is None:
            summary = "it is gone: somebody has deleted it" if self._identity else "it is not there"
            return Update(Verdict(Phase.ABSENT, summary), None, is_last=True)
        workload = snapshot.workload
        self._identity = self._identity or uid(workload)
        if uid(workload) != self._identity:
            return _taken(snapshot, "has deleted it and deployed it anew")
        if self._rendered and annotation(workload, RENDERED) not in (None, self._rendered):
            return _taken(snapshot, "has deployed something else over it")
        for finding in pod_failures(snapshot):
            self._failures[finding.subject] = finding
        self._watch_workers(snapshot)
        verdict = diagnose(self._engine, snapshot, list(self._failures.values()))
        if verdict.phase is Phase.SUCCEEDED and self._lost:
            # mpirun may end with 0 when a host goes away under it; what its ranks had yet to do is not done.
            summary = "it calls itself a success, but workers were taken away while it ran"
            verdict = Verdict(Phase.FAILED, summary, tuple(self._lost.values()))
        return Update(verdict, snapshot, is_last=verdict.phase.is_over or self._is_final(verdict.findings, now))

    def _watch_workers(self, snapshot: Snapshot) -> None:
        """Remember which workers went while the main pod ran; a new attempt of it starts with those that are there."""
        main = self._engine.main(snapshot.pods)
        if main is None or not is_running(main):
            return
        if uid(main) != self._main:
            self._main, self._workers, self._lost = uid(main), {}, {}
        for worker in self._engine.workers(snapshot.pods):
            known = self._workers.setdefault(name(worker), uid(worker))
            if known != uid(worker) or is_going(worker):
                self._lost[name(worker)] = Finding(
                    "WorkerLost", shown(worker), "was taken away while the job ran", "deploy again with --replace"
                )

    def _is_final(self, findings: tuple[Finding, ...], now: float) -> bool:
        """Whether one of the findings has lasted for longer than it should be waited for."""
        blocking = {each.reason: each for each in findings if each.blocks}
        self._since = {reason: self._since.get(reason, now) for reason in blocking}
        return any(now - self._since[reason] >= each.final_after for reason, each in blocking.items())


def _taken(snapshot: Snapshot, what: str) -> Update:
    message = f"{annotation(snapshot.workload, DEPLOYED_BY) or 'somebody'} {what}"
    finding = Finding("Replaced", shown(snapshot.workload), message)
    return Update(Verdict(Phase.ABSENT, message, (finding,)), snapshot, is_last=True)
