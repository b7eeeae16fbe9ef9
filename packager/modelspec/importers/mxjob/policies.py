"""Puts the policies of an MxJob or MXJob into the draft: restarts, deadlines, priority and queue.

Tests: modelspec/importers/mxjob/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import show
from packager.modelspec.importers.draft import Sketch, with_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.yamlio import Location
    from packager.modelspec.importers.mxjob.roles import Replicas
    from packager.modelspec.importers.source import ForeignValue

_INT32 = (1 << 31) - 1
_RESTARTS = 3
_PERMANENT = "1-127"
_SHORTEST_TTL = 60


def put_policies(sketch: Sketch, spec: ForeignValue, mode: str, replicas: list[Replicas]) -> None:
    """Put the policies of a job into its overlay, or report them.

    Args:
        sketch: The draft, whose overlay is called after the mode.
        spec: The job's key `spec`.
        mode: The mode of the job.
        replicas: The roles of the job.
    """
    place: Location = ("overlays", mode)
    policy = spec.at("runPolicy")
    holders = [holder for holder in (policy, spec) if holder]
    _retries(sketch, place, holders, replicas)
    _priority(sketch, place, holders, replicas)
    for key, low, name in (("activeDeadlineSeconds", 1, "deadline"), ("ttlSecondsAfterFinished", 0, "ttl")):
        for entry in _all(holders, key):
            number = entry.whole(low, _INT32)
            if number is not None and name == "ttl" and number < _SHORTEST_TTL:
                entry.leave(f"becomes {_SHORTEST_TTL} seconds, found {number}", "sooner, no one would see the result")
                number = _SHORTEST_TTL
            if number is not None:
                sketch.put((*place, name), number, entry.origin)
    for key, message, hint in (
        ("cleanPodPolicy", "is not carried over: a finished set deletes pods that still run", None),
        ("suspend", "is not carried over: a deployed package runs", "the option queue holds it back"),
        ("RuntimeId", "is not carried over: names need no random part", None),
        ("successPolicy", "is not carried over: all workers have to end well", None),
    ):
        for entry in _all(holders, key):
            entry.leave(message, hint)
    _scheduling(sketch, _all(holders, "schedulingPolicy"))
    if mode == "dist":
        message = "succeeds when all workers do; the operator waited for the scheduler"
        spec.source.ledger.findings.append(replicas[0].entry.problem(message, at_key=True))


def _priority(sketch: Sketch, place: Location, holders: list[ForeignValue], replicas: list[Replicas]) -> None:
    """Put the PriorityClass of the pods, if it is the same for all."""
    policies = [policy.at("priorityClass") for policy in _all(holders, "schedulingPolicy")]
    own = [one.template.at("spec", "priorityClassName") for one in replicas]
    entries = [entry for entry in (*own, *policies) if entry is not None]
    names = {text for entry in entries if (text := entry.text())}
    if len(names) == 1 and (any(policies) or None not in own):
        sketch.put((*place, "priority_class"), names.pop(), entries[0].origin)
        return
    for entry in entries:
        entry.leave("is not carried over: all pods of a workload have the same")


def _scheduling(sketch: Sketch, policies: Iterable[ForeignValue]) -> None:
    for policy in policies:
        queue = policy.at("queue")
        text = queue.text() if queue else None
        if queue and text:
            queue.leave("is the option queue of a site", with_option(sketch, "queue", QUEUE=text))
        for entry in policy.children():
            if entry.key not in ("queue", "priorityClass"):
                entry.leave("is not carried over: Kueue starts all pods together")


def _retries(sketch: Sketch, place: Location, holders: list[ForeignValue], replicas: list[Replicas]) -> None:
    limit = next(iter(_all(holders, "backoffLimit")), None)
    policies: list[ForeignValue] = []
    for one in replicas:
        pod_policy = one.template.at("spec", "restartPolicy")
        own = one.entry.child("restartPolicy")
        for entry in (own, pod_policy):
            text = entry.text() if entry else None
            if entry is None or text is None:
                continue
            if text not in ("Never", "OnFailure", "Always", "ExitCode"):
                entry.refuse(f"expected Never, OnFailure, Always or ExitCode, found {show(text)}")
                continue
            policies.append(entry)
    restarting = [entry for entry in policies if entry.value != "Never"]
    origin = restarting[0].origin if restarting else (policies[0].origin if policies else None)
    number = _RESTARTS if restarting else 0
    if limit is not None:
        given = limit.whole(0, _INT32)
        if given is not None and given > 100:
            limit.leave("becomes 100, the most that a spec allows")
        number, origin = min(given or 0, 100), limit.origin
    by_code = [entry for entry in restarting if entry.value == "ExitCode"]
    # A JobSet has one list of codes for all pods: if some pods restart after any code, no code is permanent.
    is_permanent = place[1] != "local" and number > 0 and by_code == restarting
    for entry in restarting:
        codes = ", and exit codes 1 to 127 are retried too" if entry in by_code and not is_permanent else ""
        scope = "the job starts" if place[1] == "local" else "all pods start"
        cause = "an exit code above 127" if is_permanent else "a failure"
        entry.leave(f"is {entry.value}: after {cause} {scope} again, at most {number} times{codes}")
    if origin is not None:
        sketch.put((*place, "retries"), number, origin)
    if by_code and is_permanent:
        sketch.put((*place, "permanent_exit_codes"), _PERMANENT, by_code[0].origin)


def _all(holders: Iterable[ForeignValue], key: str) -> list[ForeignValue]:
    return [entry for holder in holders if (entry := holder.child(key)) is not None]
