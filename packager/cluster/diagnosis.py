"""Snapshot -> Verdict: the phase of a workload, and why. Pure: what it says follows from what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cluster.objects import is_going, shown
from packager.cluster.pods import crashed, failure, obstacles, state
from packager.cluster.verdict import Finding, Phase, Verdict, grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.engines import Engine
    from packager.cluster.objects import Object
    from packager.cluster.snapshot import Snapshot


def diagnose(engine: Engine, snapshot: Snapshot, earlier: Sequence[Finding] = ()) -> Verdict:
    """Return what can be said of a workload.

    Args:
        engine: Of the workload's kind.
        snapshot: What the cluster says now.
        earlier: Failures of pods that were seen in earlier snapshots and may be gone by now.
    """
    ending = engine.ending(snapshot)
    if ending is not None:
        if ending.phase is Phase.SUCCEEDED:
            return ending
        failures = [engine.explain(failed, snapshot) for failed in _failures(engine, snapshot.pods)]
        return Verdict(ending.phase, ending.summary, grouped([*failures, *_others(earlier, snapshot)]))
    findings = grouped([*engine.findings(snapshot), *_pods(snapshot)])
    blocking = [finding for finding in findings if finding.blocks]
    if is_going(snapshot.workload):
        return Verdict(Phase.PENDING, "is being deleted", findings)
    if blocking:
        return Verdict(Phase.STUCK, blocking[0].message, findings)
    if engine.is_running(snapshot.pods):
        return Verdict(Phase.RUNNING, _progress(snapshot.pods), findings)
    return Verdict(Phase.PENDING, _progress(snapshot.pods), findings)


def pod_failures(snapshot: Snapshot) -> list[Finding]:
    """Return why pods have failed, those that are there now: to be remembered, as controllers clean up after them."""
    return [found for pod in snapshot.pods if (found := failure(pod))]


def _failures(engine: Engine, pods: Sequence[Object]) -> Iterator[Finding]:
    """Why the pods have failed: the last main pod's reason first, for that is what the workload's ending came from."""
    main = engine.main(pods)
    for pod in [*([main] if main else []), *engine.workers(pods)]:
        if found := failure(pod):
            yield found


def _others(earlier: Sequence[Finding], snapshot: Snapshot) -> Iterator[Finding]:
    there = {shown(pod) for pod in snapshot.pods}
    yield from (finding for finding in earlier if finding.subject not in there)


def _pods(snapshot: Snapshot) -> Iterator[Finding]:
    for pod in snapshot.pods:
        if is_going(pod):
            continue
        yield from obstacles(pod, snapshot.events)
        if found := crashed(pod):
            yield found


def _progress(pods: Sequence[Object]) -> str:
    counts: dict[str, int] = {}
    for pod in pods:
        word = state(pod)
        counts[word] = counts.get(word, 0) + 1
    told = ", ".join(f"{count} {word.lower()}" for word, count in sorted(counts.items()))
    return f"pods: {told}" if told else "no pods yet"
