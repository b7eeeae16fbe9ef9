"""Manifest of a LeaderWorkerSet (leaderworkerset.x-k8s.io/v1, as LeaderWorkerSet v0.10 reads it), and its Service."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from packager.base.faults import Fault
from packager.base.problems import show
from packager.kubernetes.manifest import INT32, at, mapping
from packager.workloads.leaderworkerset.variables import VARIABLES, WORKER, reserved_reason
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.structure import Structure, probes, selector_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_GROUP: Location = ("spec", "leaderWorkerTemplate")
_ROLLING: Location = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
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
    companion_kinds = (
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "Ingress"),
    )
    choices = MappingProxyType(
        {
            "leaderWorkerTemplate.restartPolicy": ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"),
            "startupPolicy": ("LeaderCreated", "LeaderReady"),
            "networkConfig.subdomainPolicy": ("Shared", _UNIQUE),
        }
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

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield errors for LeaderWorkerSet's webhook, and what the API server then refuses of its pods."""
        groups, size = number_of_pods(manifest.spec.get("replicas")), _size(manifest)
        if groups * size > INT32:
            yield Fault(("spec", "replicas"), f"replicas x size is {groups * size}, the limit is {INT32}")
        least, most = (at(manifest.data, (*_ROLLING, field)) for field in ("maxUnavailable", "maxSurge"))
        if str(least) in ("0", "0%") and str(most) in ("0", "0%", "None"):
            hint = "set maxUnavailable to 1: an old group then goes before its new one comes"
            yield Fault(_ROLLING, "maxUnavailable and maxSurge are both 0, so no group could ever be replaced", hint)
        for pods in self.pods(manifest):
            location: Location = (*pods.location, "spec", "restartPolicy")
            policy = at(manifest.data, location)
            if policy not in (None, "Always"):
                hint = "the pods of a LeaderWorkerSet run until they are deleted"
                yield Fault(location, f"expected Always, found {show(policy)}", hint)
            for place, container in pods.containers():
                yield from probes(place, container)

    def companion_faults(self, manifest: Manifest, companion: Manifest) -> Iterator[Fault]:
        """Yield selectors that do not select the leaders, and references to missing objects."""
        leaders = next(iter(self.pods(manifest)))
        yield from selector_faults(leaders, companion, {WORKER: "0"})
        selector: Location = ("spec", "selector")
        if companion.kind == "Service" and mapping(at(companion.data, selector)).get(WORKER) != "0":
            message = "selects the workers too, which do not answer requests"
            yield Fault(selector, message, f"add the label {WORKER} with '0'", needs=((*selector, WORKER),))

    def reserved(self, manifest: Manifest, key: str) -> str | None:  # noqa: ARG002 - every set has the same
        """Return why `key` must not be set, if LeaderWorkerSet sets it."""
        return reserved_reason(key)

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:  # noqa: ARG002 - the same
        """Return the variables that LeaderWorkerSet adds."""
        return VARIABLES

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
