"""Determines why Kueue holds a workload, and who can change it, from what Kueue says of it. Pure.

The sentences are those of Kueue 0.19 (pkg/scheduler/flavorassigner, pkg/controller/core/workload_controller.go,
pkg/workload/resources.go). Tests: diagnosis/test_queued.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.masking import shortened
from packager.base.values import Value, replace
from packager.kubernetes.manifest import at, listing, mapping, text
from packager.kubernetes.objects import condition, sentence, shown, true_condition
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import NEVER, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Queueing, Snapshot

HELD = ("Suspended", "SchedulingGated")
"""The reasons of findings that a workload, or a pod of it, is held back."""

_SILENCE = 30.0
"""Seconds in which Kueue makes its Workload for an object; it usually takes less than one."""

_LONGEST = 300


class QueueReason(Value, frozen=True):
    """Why Kueue holds a workload."""

    pattern: str  # a part of Kueue's sentence that says so; empty where a field of its Workload does
    reason: str  # the reason of the finding
    message: str  # the meaning; the groups of the pattern in braces, `{queue}` and `{cluster_queue}`
    action: Action  # the fix
    final_after: float = NEVER  # seconds after which it can be expected to stay


_CAUSES = (
    QueueReason(
        r"LocalQueue (?P<name>\S+) (?:doesn't exist|is terminating or missing)",
        "QueueMissing",
        "the namespace has no LocalQueue {name}",
        Action.CHOOSE_QUEUE,
        final_after=60,
    ),
    QueueReason(
        r"ClusterQueue (?P<name>\S*) ?(?:doesn't exist|is terminating or missing)",
        "QueueMissing",
        "the ClusterQueue {name} of its LocalQueue {queue} does not exist",
        Action.ASK_ABOUT_QUEUE,
    ),
    QueueReason(
        r"(?P<kind>LocalQueue|ClusterQueue) (?P<name>\S+) is (?:inactive|stopped)",
        "QueueStopped",
        "the {kind} {name} is stopped, and starts nothing",
        Action.ASK_ABOUT_QUEUE,
    ),
    QueueReason(
        r"namespace doesn't match ClusterQueue selector",
        "QueueRefuses",
        "the ClusterQueue {cluster_queue} takes no workloads of this namespace",
        Action.ASK_ABOUT_QUEUE,
    ),
    QueueReason(
        r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), .* "
        r"current podset request \((?P<asked>[^)]*)\) > maximum capacity \((?P<most>[^)]*)\)",
        "QuotaTooSmall",
        "it asks for {asked} of {resource}, and the ClusterQueue {cluster_queue} never has more than {most} for one "
        "workload (flavor {flavor})",
        Action.REQUEST_LESS,
        final_after=0,
    ),
    QueueReason(
        r"resource (?P<resource>\S+) unavailable in ClusterQueue",
        "QuotaMissing",
        "the ClusterQueue {cluster_queue} has no quota for {resource}, which it asks for",
        Action.ASK_ABOUT_QUEUE,
        final_after=60,
    ),
    QueueReason(
        r"Pending the preemption of (?P<count>\d+) workload",
        "Preempting",
        "Kueue stops {count} workload(s) of lower priority in the ClusterQueue {cluster_queue} for it",
        Action.WAIT_FOR_QUOTA,
    ),
    QueueReason(
        r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?P<more>\S+) more needed",
        "QuotaUsedUp",
        "the quota of the ClusterQueue {cluster_queue} for {resource} (flavor {flavor}) is used up: {more} more needed",
        Action.WAIT_FOR_QUOTA,
    ),
    QueueReason(
        r"flavor (?P<flavor>\S+) doesn't match node affinity",
        "NoFlavor",
        "the nodes of the flavor {flavor} of the ClusterQueue {cluster_queue} lack a label that its pods ask for",
        Action.CORRECT_PLACEMENT,
    ),
    QueueReason(
        r"untolerated taint (?P<taint>.+?) in flavor (?P<flavor>[^\s,;]+)",
        "NoFlavor",
        "its pods do not tolerate the taint of the flavor {flavor} of the ClusterQueue {cluster_queue}",
        Action.CORRECT_PLACEMENT,
    ),
    QueueReason(
        r"topology \"?(?P<topology>[^\s\"]+)\"? (?P<why>(?:doesn't allow|allows) to fit.*)",
        "TopologyFull",
        "the topology {topology} of the ClusterQueue {cluster_queue} {why}",
        Action.WAIT_FOR_QUOTA,
    ),
    QueueReason(
        r"(?P<why>(?:resources didn't satisfy LimitRange constraints|resource requests exceed limits).*)",
        "LimitRange",
        "Kueue does not admit it: {why}",
        Action.KEEP_LIMIT_RANGE,
        final_after=60,
    ),
    QueueReason(
        r"waiting for all admitted workloads to be in PodsReady condition",
        "QueueWaits",
        "Kueue starts one workload after the other, and the pods of an earlier one are not ready yet",
        Action.ASK_ABOUT_QUEUE,
    ),
)
"""The sentences; the first that is found counts, so that what never passes comes before what does."""


def held(snapshot: Snapshot) -> Finding | None:
    """Return why Kueue holds the workload; None if it is in no queue, or what Kueue says of it is not known."""
    queueing = snapshot.queueing
    if queueing is None:
        return None
    subject, own = shown(snapshot.workload), queueing.own(snapshot.workload, *snapshot.pods)
    if own is None:
        message = f"it is in the queue {queueing.name}, and Kueue has not noticed it"
        remedy = Remedy.of(Action.START_CONTROLLER, controller="Kueue", pods="-n kueue-system")
        return None if snapshot.age < _SILENCE else Finding("QueueSilent", subject, message, remedy)
    if (cause := _cause(own, queueing)) is None:
        return None
    others = _others(own, queueing) if cause.action is Action.WAIT_FOR_QUOTA else ()
    has_queue = cause.action in (Action.ASK_ABOUT_QUEUE, Action.WAIT_FOR_QUOTA)
    remedy = Remedy.of(cause.action, queue=queueing.name) if has_queue else Remedy.of(cause.action)
    message = "; ".join((cause.message, *others))
    return Finding(cause.reason, subject, message, remedy, final_after=cause.final_after)


def explained(snapshot: Snapshot, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, with the reason of Kueue in place of those that the workload, or its pods, are held back."""
    reason = held(snapshot)
    is_reported = False
    for finding in findings:
        if reason is None or finding.reason not in HELD:
            yield finding
        elif not is_reported:
            is_reported = True
            yield reason


def _cause(own: Object, queueing: Queueing) -> QueueReason | None:
    """Return why Kueue holds a workload, with a complete message; None if it does not hold it."""
    if own["spec"].get("active") is False:
        detail = _short(sentence(condition(own, "Evicted") or {})) or "its Workload is not active"
        return QueueReason("", "Deactivated", f"Kueue has given it up: {detail}", Action.ASK_ABOUT_QUEUE, 60)
    if true_condition(own, "QuotaReserved"):
        for check in map(mapping, listing(at(own, ("status", "admissionChecks")))):
            if check.get("state") != "Ready":
                detail = f": {_short(text(check['message']))}" if check.get("message") else ""
                state = f"{check.get('name')} is {check.get('state')}{detail}"
                message = f"its quota is reserved, and the admission check {state}"
                return QueueReason("", "AdmissionCheck", message, Action.ASK_ABOUT_QUEUE)
        return None
    answer = sentence(condition(own, "QuotaReserved") or {})
    for cause in _CAUSES:
        if match := re.search(cause.pattern, answer):
            groups = {key: _short(value or "") for key, value in match.groupdict().items()}
            names = {"queue": queueing.name, "cluster_queue": queueing.cluster_queue}
            return replace(cause, message=cause.message.format(**names, **groups))
    message = f"Kueue holds it: {_short(answer)}" if answer else "Kueue has not examined it yet"
    return QueueReason("", "Queued", message, Action.WAIT_FOR_QUOTA)


def _others(own: Object, queueing: Queueing) -> Iterator[str]:
    holders = sorted(
        _owner(one)
        for one in queueing.workloads
        if one is not own
        and text(at(one, ("status", "admission", "clusterQueue"))) == queueing.cluster_queue
        and not true_condition(one, "Finished")
    )
    if holders:
        more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
        yield f"in this namespace, {', '.join(holders[:3])}{more} {'use' if len(holders) > 1 else 'uses'} it"
    ahead = queueing.ahead(own)
    yield (
        f"{ahead} {'is' if ahead == 1 else 'are'} ahead of it in its queue" if ahead else "it is the next in its queue"
    )


def _owner(workload: Object) -> str:
    """Return the object for which Kueue has made a Workload, as `job/x`."""
    for reference in map(mapping, listing(workload["metadata"].get("ownerReferences"))):
        return f"{str(reference.get('kind')).lower()}/{reference.get('name')}"
    return shown(workload)


def _short(value: str) -> str:
    return shortened(value, _LONGEST)
