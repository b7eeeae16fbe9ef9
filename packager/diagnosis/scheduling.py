"""Takes the scheduler's message about a pod that fits no node apart: how many nodes lack what. Pure.

The reasons are those of the plugins of kube-scheduler (pkg/scheduler/framework/plugins), and the form of the message is
that of `FitError.Error` (kube-scheduler/framework). Those about groups are of scheduler-plugins 0.34 (pkg/coscheduling)
and of Volcano 1.14 (pkg/scheduler/api: `FitError` and `TaskSchedulingReason` of JobInfo).

Tests: diagnosis/test_scheduling.py.
"""

from __future__ import annotations

import re

from packager.base.values import Value
from packager.kubernetes.remedy import Action, Remedy

_OF_NODES = re.compile(r"0/(\d+) nodes are (?:un)?available: ?(.*)", re.DOTALL)

_OF_VOLCANO = re.compile(r"pod group is (?:not )?ready, (.*?)(?:\. Origin reason is (?:\S+: )?(.*))?", re.DOTALL)
"""The counts of a PodGroup's pods, and what Volcano says of one that fits no node, if it does."""

# The scheduler's remarks about preemption and about devices that could be freed do not help a user who waits.
_REMARKS = re.compile(
    r"[.,]? ?(no new claims to deallocate, )?(preemption: .*|no new claims to deallocate.*)|\. not found\.?$", re.DOTALL
)


class NodeReason(Value, frozen=True):
    """A reason for which a node, or every node, does not take a pod."""

    pattern: str  # the scheduler's reason, all of it
    words: str  # the meaning for several nodes, or for the pod where `of_pod`; `{what}` is a group of the pattern
    action: Action | None = None  # the fix; None without one
    of_pod: bool = False  # whether the scheduler counts no nodes, because no node can have the pod
    of_group: bool = False  # whether a gang scheduler refuses the pod for the sake of the other pods of its group
    # the meaning for one node; without it, `words` with "has" in place of "have" and "is" of "are"
    for_one: str | None = None


_TAINT = r"node\(s\) had untolerated taints? \{%s: .*\}"

_NO_ROOM = "rejection in Unreserve"
"""The reason of a pod that fits a node, and not with all pods of its group."""

_CAUSES = (
    NodeReason(r"Insufficient (?P<what>\S+)", "have too little {what} left", Action.WAIT_FOR_ROOM),
    NodeReason(
        "Too many pods", "have as many pods as they may", Action.WAIT_FOR_ROOM, for_one="has as many pods as it may"
    ),
    NodeReason(
        r"node\(s\) didn't have free ports for the requested pod ports", "have its port taken", Action.WAIT_FOR_ROOM
    ),
    NodeReason("cannot allocate all claims", "have no free device for its claim", Action.INSPECT_DEVICES),
    NodeReason(
        r"node\(s\) didn't (?:match pod anti-affinity rules|satisfy existing pods anti-affinity rules)",
        "have a pod that it must be apart from",
        Action.WAIT_FOR_ROOM,
    ),
    NodeReason(
        r"node\(s\) didn't match pod topology spread constraints.*",
        "would make the spread of the pods uneven",
        Action.LOOSEN_SPREAD,
    ),
    NodeReason(r"node\(s\) exceed max volume count", "have as many volumes as they may", Action.WAIT_FOR_ROOM),
    NodeReason(
        "pod has unbound immediate PersistentVolumeClaims",
        "one of its claims has no volume yet",
        Action.INSPECT_CLAIMS,
        of_pod=True,
    ),
    NodeReason(
        r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
        "the claim {name} does not exist in the namespace",
        Action.CREATE_OBJECT,
        of_pod=True,
    ),
    NodeReason(
        r'persistentvolumeclaim "(?P<name>[^"]+)" is being deleted',
        "the claim {name} is being deleted",
        Action.INSPECT_CLAIMS,
        of_pod=True,
    ),
    NodeReason(
        r"node\(s\) (?:had volume node affinity conflict|had no available volume zone"
        r"|didn't match PersistentVolume's node affinity)",
        "cannot reach the volume of its claim",
        Action.INSPECT_CLAIMS,
    ),
    NodeReason(
        r"node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by .*",
        "wait for another pod that has its claim for itself",
        Action.WAIT_FOR_PODS,
        for_one="waits for another pod that has its claim for itself",
    ),
    NodeReason(
        r"node\(s\) didn't find available persistent volumes to bind",
        "have no volume for its claim",
        Action.INSPECT_CLAIMS,
    ),
    NodeReason(
        r"node\(s\) didn't match Pod's node affinity/selector",
        "lack a label that it asks for",
        Action.INSPECT_LABELS,
        for_one="lacks a label that it asks for",
    ),
    NodeReason(r"node\(s\) were unschedulable", "are cordoned", Action.INSPECT_NODES),
    NodeReason(_TAINT % r"node\.kubernetes\.io/unschedulable", "are cordoned", Action.INSPECT_NODES),
    NodeReason(_TAINT % r"node\.kubernetes\.io/(?:not-ready|unreachable)", "are not ready", Action.INSPECT_NODES),
    NodeReason(
        _TAINT % r"node\.kubernetes\.io/(?P<what>memory|disk|pid)-pressure", "are short of {what}", Action.INSPECT_NODES
    ),
    NodeReason(
        r"node\(s\) had untolerated taints? \{(?P<what>[^}]*)\}",
        "have the taint {what}, which it does not tolerate",
        Action.INSPECT_LABELS,
    ),
    NodeReason(
        r"node\(s\) had untolerated taint\(s\)", "have a taint that it does not tolerate", Action.INSPECT_LABELS
    ),
    NodeReason("no nodes available to schedule pods", "the cluster has no node", Action.INSPECT_NODES, of_pod=True),
    NodeReason(
        r"pre-filter pod \S+ cannot find enough sibling pods, "
        r"current pods number: (?P<count>\d+), minMember of group: (?P<least>\d+)",
        "its group starts with {least} pods, and has {count}",
        Action.RUN_AGAIN,
        of_pod=True,
        of_group=True,
    ),
    NodeReason("PodGroup not found", "its PodGroup does not exist", Action.RUN_AGAIN, of_pod=True, of_group=True),
    NodeReason(
        rf"optimistic rejection in PostFilter|{_NO_ROOM}|podGroup \S+ failed recently"
        r"|rejected due to timeout after waiting \S+ at plugin Coscheduling"
        r"|Pod \S+ can possibly be assigned to \S+, once (?:resource is released and )?minAvailable is satisfied",
        "there is no room for all pods of its group, which start together",
        Action.WAIT_FOR_ROOM,
        of_pod=True,
        of_group=True,
    ),
)
"""In the order in which their fixes are offered: if one node only needs room, waiting helps."""


class Unfit(Value, frozen=True):
    """Why no node can run a pod."""

    words: str  # the reason, in words
    remedy: Remedy | None  # the fix; None if it is not known
    of_group: bool = False  # whether the only reason is another pod of its group


class _Part(Value, frozen=True):
    """One reason in the scheduler's message."""

    text: str  # the reason, after the number of nodes that it is about, if the scheduler counts them
    cause: NodeReason | None = None  # None if it is not known
    values: tuple[tuple[str, str], ...] = ()  # the groups of the cause's pattern, by name

    def words(self, *, is_counted: bool) -> str:
        """Return the meaning, after the number of nodes if these are counted; the text if the meaning is not known."""
        count, _, _ = self.text.partition(" ")
        if self.cause is None or (is_counted and not count.isdigit()):
            return self.text
        words = self.cause.words
        if is_counted and count == "1":
            words = self.cause.for_one or re.sub(r"^have\b", "has", re.sub(r"^are\b", "is", words))
        words = words.format(**{name: _readable(value) for name, value in self.values})
        return f"{count} {words}" if is_counted else words


def unfit(answer: str) -> Unfit:
    """Return the meaning of the scheduler's message about a pod; a reason that is not known stays as it is."""
    if of_volcano := _OF_VOLCANO.fullmatch(answer):
        answer = of_volcano[2] or _NO_ROOM
    of_nodes = _OF_NODES.match(answer)
    total, reasons = (int(of_nodes[1]), of_nodes[2]) if of_nodes else (0, answer)
    reasons = _REMARKS.sub("", reasons).strip(" .,")
    parts = [_part(reason) for reason in re.split(r", (?=\d+ )", reasons)]
    matches = [(part.cause, part) for part in parts if part.cause]
    first = min(matches, key=lambda pair: _CAUSES.index(pair[0]), default=None)
    remedy = None
    if first and (action := first[0].action):
        values = {"kind": "persistentvolumeclaim", **dict(first[1].values)} if action is Action.CREATE_OBJECT else {}
        remedy = Remedy.of(action, **values)
    if any(cause.of_pod for cause, _ in matches) or not of_nodes or not reasons:
        of_group = bool(matches) and all(cause.of_group for cause, _ in matches)
        return Unfit("; ".join(filter(None, (part.words(is_counted=False) for part in parts))), remedy, of_group)
    *others, last = (part.words(is_counted=True) for part in parts)
    listed = f"{', '.join(others)} and {last}" if others else last
    if total == 1 and listed.startswith("1 "):
        return Unfit(f"the only node {listed.removeprefix('1 ')}", remedy)
    return Unfit(f"of {total} node{'s' if total > 1 else ''}, {listed}", remedy)


def _part(reason: str) -> _Part:
    text = re.sub(r"^\d+ ", "", reason)
    for cause in _CAUSES:
        if match := re.fullmatch(cause.pattern, text):
            return _Part(reason, cause, tuple(match.groupdict().items()))
    return _Part(reason)


def _readable(value: str) -> str:
    """Return a taint `key: value` as people write it, and any other text as it is."""
    key, _, rest = value.partition(": ")
    return f"{key}={rest}" if rest else key.removesuffix(":")
