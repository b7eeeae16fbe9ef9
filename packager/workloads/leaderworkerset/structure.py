"""Manifest of a LeaderWorkerSet (leaderworkerset.x-k8s.io/v1, as LeaderWorkerSet v0.10 reads it), and its Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_GROUP: Location = ("spec", "leaderWorkerTemplate")


class LeaderWorkerSet(Structure):
    """Groups of a leader and workers."""

    api = "leaderworkerset.x-k8s.io/v1"
    setters = ("leaderworkerset",)
    companion_kinds = (
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "Ingress"),
    )
    counts = ("leaderWorkerTemplate.size",)

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the leaders and the workers; without a template of their own, the leaders are as the workers."""
        groups, size = number_of_pods(manifest.spec.get("replicas")), _size(manifest)
        has_leader = at(manifest.data, (*_GROUP, "leaderTemplate")) is not None
        roles = (("leader", "leaderTemplate", groups), ("worker", "workerTemplate", groups * (size - 1)))
        for role, field, count in roles if has_leader else (("", "workerTemplate", groups * size),):
            yield Pods(
                manifest,
                (*_GROUP, field),
                role,
                count,
                main=role != "worker",
                workload_label="leaderworkerset.sigs.k8s.io/name",
            )


def _size(manifest: Manifest) -> int:
    """Return the number of pods in each group; LeaderWorkerSet's default is one."""
    return max(number_of_pods(at(manifest.data, (*_GROUP, "size"))), 1)
