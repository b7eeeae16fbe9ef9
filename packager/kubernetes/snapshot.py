"""Snapshot: the objects of one workload in the cluster at one moment. Tests: kubernetes/test_pods.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at, integer, text
from packager.kubernetes.objects import created, events_about, last_seen, moment, owners, sentence, true_condition, uid

if TYPE_CHECKING:
    from datetime import datetime

    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class PodLog:
    """The last lines that a pod wrote, and the pod as it was when they were read."""

    pod: Object
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects of a workload at one moment."""

    workload: Object  # the object that a person deployed
    children: tuple[Object, ...] = ()  # the objects that its controller has made, other than pods
    pods: tuple[Object, ...] = ()  # the pods of this workload, without those of an earlier one of the same name
    events: tuple[Object, ...] = field(default=(), repr=False)  # the events of the namespace
    age: float = 0  # seconds since the workload was made
    # the reason why children or events are missing, if the user may not see them; otherwise None
    unseen: str | None = None
    namespace: Object | None = None  # the namespace; None if no check needs it, or the user may not see it
    nodes: tuple[Object, ...] = ()  # the nodes of pods that seem not to answer, as far as the user may see them
    logs: tuple[PodLog, ...] = field(default=(), repr=False)  # the last lines of pods, some of which may be deleted
    queueing: Queueing | None = None  # the objects of Kueue, if it holds the workload and the user may see them

    @property
    def now(self) -> datetime:
        """The time of the snapshot, by the clock of this machine."""
        return created(self.workload) + timedelta(seconds=self.age)

    def about(self, item: Object, reason: str) -> list[Object]:
        """Return the events of one reason about `item`, the oldest first."""
        return [event for event in events_about(self.events, item) if event.get("reason") == reason]

    def killed(self) -> list[Object]:
        """Return the Killing events of kubelets about pods that no longer exist: one per pod, the newest first."""
        existing, killed = {uid(pod) for pod in self.pods}, {}
        for event in sorted(self.events, key=last_seen):
            about = event["involvedObject"]
            is_kill = event.get("reason") == "Killing" and sentence(event).startswith("Stopping container ")
            is_later = is_kill and moment(last_seen(event)) > created(self.workload)
            if is_later and about.get("kind") == "Pod" and about.get("uid") not in existing:
                killed[about.get("uid")] = event
        return list(reversed(killed.values()))

    def warnings(self, item: Object) -> list[Object]:
        """Return the warnings about `item`, the oldest first."""
        return [event for event in events_about(self.events, item) if event.get("type") == "Warning"]


@dataclass(frozen=True, slots=True)
class Queueing:
    """The objects of Kueue in the namespace of a workload that it holds."""

    name: str  # the LocalQueue of the workload
    workloads: tuple[Object, ...] = ()  # Kueue's Workloads of the namespace
    local_queue: Object | None = None  # the LocalQueue; None if it does not exist, or the user may not see it

    @property
    def cluster_queue(self) -> str:
        """The name of the ClusterQueue to which the LocalQueue leads; `of NAME` if it cannot be seen."""
        return text(at(self.local_queue or {}, ("spec", "clusterQueue"))) or f"of {self.name}"

    def own(self, *items: Object) -> Object | None:
        """Return Kueue's Workload for an object, or one of its pods; None before Kueue has made one.

        There is one for each group of a LeaderWorkerSet, and each pod of a Deployment: of these, the next that waits.
        """
        uids = set(map(uid, items))
        own = [one for one in self.workloads if owners(one) & uids]
        return min(own, key=lambda one: (not _is_pending(one), _order(one)), default=None)

    def ahead(self, own: Object) -> int:
        """Return how many Workloads of the LocalQueue Kueue looks at before one: of a higher priority, or older."""
        return sum(
            _order(one) < _order(own)
            for one in self.workloads
            if one is not own and _is_pending(one) and one["spec"].get("queueName") == self.name
        )


def _order(workload: Object) -> tuple[int, str]:
    return -(integer(workload["spec"].get("priority")) or 0), workload["metadata"].get("creationTimestamp", "")


def _is_pending(workload: Object) -> bool:
    is_known = any(true_condition(workload, kind) for kind in ("QuotaReserved", "Finished"))
    return not is_known and workload["spec"].get("active") is not False
