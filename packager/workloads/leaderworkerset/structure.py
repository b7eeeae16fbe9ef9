"""Manifest of a LeaderWorkerSet (leaderworkerset.x-k8s.io/v1, as LeaderWorkerSet v0.10 reads it), and its Service."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from packager.kubernetes.manifest import INT32, at
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_GROUP: Location = ("spec", "leaderWorkerTemplate")
_SUBDOMAINS: Location = ("spec", "networkConfig", "subdomainPolicy")
_UNIQUE = "UniquePerReplica"

_HASH_LENGTH = 10
"""Digits of the hash behind a StatefulSet's name in a label of its pods (pkg/controller/statefulset, ComputeHash)."""

_MOST_GROUPS = 1_000
"""At most this many names of groups are predicted."""


class LeaderWorkerSet(Structure):
    """Groups of a leader and workers."""

    api = "leaderworkerset.x-k8s.io/v1"
    maker = "LeaderWorkerSet"
    setters = ("leaderworkerset",)
    companion_kinds = (
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "Ingress"),
    )
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = MappingProxyType(
        {"replicas": (0, 1_000_000), "leaderWorkerTemplate.size": (1, INT32)}
    )

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

    def longest_name(self, manifest: Manifest) -> str:
        """Return the name of the last group, with a hash: each pod of its workers has both in one label."""
        return f"{manifest.name}-{max(number_of_pods(manifest.spec.get('replicas')) - 1, 0)}-{'0' * _HASH_LENGTH}"

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:
        """Return the StatefulSets and the headless Services (leaderworkerset_controller.go, pod_controller.go)."""
        groups = min(number_of_pods(manifest.spec.get("replicas")), _MOST_GROUPS)
        names = [f"{manifest.name}-{index}" for index in range(groups)]
        is_unique = at(manifest.data, _SUBDOMAINS) == _UNIQUE
        sets = [("StatefulSet", name) for name in (manifest.name, *names)]
        return (*sets, *(("Service", name) for name in (names if is_unique else [manifest.name])))


def _size(manifest: Manifest) -> int:
    """Return the number of pods in each group; LeaderWorkerSet's default is one."""
    return max(number_of_pods(at(manifest.data, (*_GROUP, "size"))), 1)
