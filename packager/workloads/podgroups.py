"""PodGroups of gang schedulers: the objects that say how many pods have to fit before any of them starts.

Volcano v1.15: scheduling.volcano.sh/v1beta1, by the annotation scheduling.k8s.io/group-name of the pods.
scheduler-plugins v0.34: scheduling.x-k8s.io/v1alpha1, by their label scheduling.x-k8s.io/pod-group. KAI-Scheduler v0.12
makes groups itself (pkg/podgrouper): of all pods of an MPIJob; for a JobSet, each of one pod.

Tests: test_gang.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import show
from packager.kubernetes.manifest import at, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.kubernetes.manifest import Manifest
    from packager.workloads.pods import Pods

GANG = "mlpack/gang"
"""The label with the value of GANG, of the workload and its PodGroup."""

KINDS = (("scheduling.volcano.sh/v1beta1", "PodGroup"), ("scheduling.x-k8s.io/v1alpha1", "PodGroup"))
"""The apiVersions and kinds of the PodGroups that a build makes."""

KAI_QUEUE = "kai.scheduler/queue"
"""The label with the queue of KAI."""


def faults(pods: Iterable[Pods], group: Manifest) -> Iterator[Fault]:
    """Yield a fault if a PodGroup does not wait for exactly the pods that compute."""
    expected = sum(entry.count for entry in pods if entry.computes)
    members = at(group.data, ("spec", "minMember"))
    if members != expected:
        message = f"expected {expected}, the number of pods that compute, found {show(members)}"
        yield Fault(("spec", "minMember"), message)


def gang(workload: Manifest) -> str | None:
    """Return the value of GANG that a workload was built with; None without the option."""
    value = mapping(at(workload.data, ("metadata", "labels"))).get(GANG)
    return value if isinstance(value, str) else None
