"""Queueing: what Kueue says of the workloads of a namespace (kueue.x-k8s.io). Tests: diagnosis/test_queued.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at, integer, text
from packager.kubernetes.objects import owners, true_condition, uid

if TYPE_CHECKING:
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class Queueing:
    """The objects of Kueue in the namespace of a workload that it holds."""

    name: str  # the LocalQueue of the workload
    workloads: tuple[Object, ...] = ()  # kueue's Workloads of the namespace
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
