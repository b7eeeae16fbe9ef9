"""Structure: the base class for the manifests of a kind, and what all kinds say of a manifest.

Tests: workloads/test_pods.py.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from packager.base.masking import shortened
from packager.base.problems import Fault, show
from packager.kubernetes.containers import is_gpu_or_part
from packager.kubernetes.manifest import at, mapping, out_of_range, tree, values_at
from packager.workloads import of_each_kind
from packager.workloads.pods import is_of_kubernetes, of_kubernetes
from packager.workloads.program import ADDED, reserved_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods


class Structure(ABC):
    """Reads the manifests of one kind."""

    api: ClassVar[str]
    """The apiVersion that builds write."""

    maker: ClassVar[str] = "Kubernetes"
    """The controller that makes the pods and the objects of `made_objects`."""

    companion_kinds: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The apiVersions and kinds of the objects that a build adds to the workload; each has the workload's name."""

    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = MappingProxyType({})
    """The least and the most of numbers below the workload's `spec` that env files fill, by path; `*` is each item."""

    suspend: ClassVar[Location] = ()
    """The field that suspends the workload, as a queue sets it; empty if the kind has none."""

    setters: ClassVar[tuple[str, ...]] = ()
    """The setters of variables in its pods, which no environment may set; see `reserved_by`."""

    @property
    def schema(self) -> Path:
        """The schema of the kind's fields: a file in its folder, except for Kubernetes' own kinds (`tools.schemas`)."""
        return Path(str(sys.modules[type(self).__module__].__file__)).with_name("schema.json")

    def is_of(self, manifest: Manifest) -> bool:
        """Whether a manifest with the name of this kind is of its group, in whatever version."""
        is_version = manifest.api != "" and manifest.api.count("/") < 2
        return is_version and manifest.group == self.api.rpartition("/")[0]

    @abstractmethod
    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods of each template of a manifest of this kind, in its order."""

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield values with which the pods would fail, wait or lose their logs, although the cluster accepts them.

        The API server, webhooks and operators say the rest within seconds.
        """
        for path, location, value in values_at(manifest.spec, tree(self.ranges), ("spec",)):
            if message := out_of_range(value, self.ranges[path]):
                yield Fault(location, message)

    def setters_of(self, manifest: Manifest) -> tuple[str, ...]:  # noqa: ARG002 - a Job depends on it
        """Return the setters of variables in the pods of a manifest."""
        return self.setters

    def reserved(self, manifest: Manifest, key: str) -> str | None:
        """Return why the environment variable `key` of its pods must not be set; None if it may be."""
        return reserved_by(key, *self.setters_of(manifest))

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the environment variables that Kubernetes adds to its containers, beside what the manifest says."""
        return tuple(name for setter in self.setters_of(manifest) for name in ADDED.get(setter, ()))

    def longest_name(self, manifest: Manifest) -> str | None:  # noqa: ARG002 - the same
        """Return the longest name that a pod gets; None when nothing is put behind the workload's name."""
        return None

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - the same
        """Return the kinds and names of the objects that `maker` makes for the workload, if they can be predicted."""
        return ()

    def companion_faults(self, manifest: Manifest, companion: Manifest) -> Iterator[Fault]:
        """Yield values of an object beside the workload that contradict it: a PodGroup waits for all of its pods."""
        if companion.kind == "PodGroup":
            expected = sum(entry.count for entry in self.pods(manifest) if entry.computes)
            members = at(companion.data, ("spec", "minMember"))
            if members != expected:
                message = f"expected {expected}, the number of pods that compute, found {show(members)}"
                yield Fault(("spec", "minMember"), message)


POD_GROUPS = (("scheduling.volcano.sh/v1beta1", "PodGroup"), ("scheduling.x-k8s.io/v1alpha1", "PodGroup"))
"""The apiVersions and kinds of the PodGroups that a build makes: they say how many pods fit before any starts.

Volcano v1.15 finds the pods by the annotation scheduling.k8s.io/group-name, and scheduler-plugins v0.34 by their label
scheduling.x-k8s.io/pod-group. KAI-Scheduler v0.12 makes groups itself (pkg/podgrouper): of all pods of an MPIJob; for a
JobSet, each of one pod.
"""

KAI_QUEUE = "kai.scheduler/queue"
"""The label with the queue of KAI."""


def gang(workload: Manifest) -> str | None:
    """Return the value of GANG that a workload was built with; None without the option."""
    value = mapping(at(workload.data, ("metadata", "labels"))).get("mlpack/gang")
    return value if isinstance(value, str) else None


@cache
def structures() -> Mapping[str, Structure]:
    """Return the Structure of each kind, by kind."""
    return of_each_kind("structure")


def structure_of(manifest: Manifest) -> Structure | None:
    """Return the Structure of a manifest's kind; None when the kind is of another group or has no folder."""
    structure = structures().get(manifest.kind)
    return structure if structure and (not manifest.api or structure.is_of(manifest)) else None


def pods(manifest: Manifest) -> tuple[Pods, ...]:
    """Return the pods of each template of a manifest; none for a kind that makes none, or that is not known."""
    structure = structures().get(manifest.kind)
    return tuple(structure.pods(manifest) if structure else of_kubernetes(manifest))


def is_workload(manifest: Manifest) -> bool:
    """Whether a manifest is of a kind that has a folder, and not another group's of that name."""
    structure = structures().get(manifest.kind)
    return structure is not None and structure.is_of(manifest)


def is_suspended(workload: Object) -> bool:
    """Whether a queue or a user has suspended a workload; never for a kind that cannot be."""
    location = structures()[workload["kind"]].suspend
    return bool(location) and at(workload, location) is True


def faults(manifest: Manifest) -> Iterator[Fault]:
    """Yield errors in a manifest that its kind's folder finds; nothing if the kind has no folder."""
    structure = structure_of(manifest)
    if structure:
        yield from structure.faults(manifest)


def companions(manifest: Manifest, others: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Return those workloads among `others` beside which a build makes objects of the kind of `manifest`."""
    pair = (manifest.api, manifest.kind)
    return tuple(other for other in others if is_workload(other) and pair in structures()[other.kind].companion_kinds)


def companion_faults(manifest: Manifest, others: Iterable[Manifest]) -> Iterator[Fault]:
    """Yield each selector and reference of an object that does not match its workload among `others`."""
    for workload in companions(manifest, others):
        if workload.name == manifest.name:
            yield from structures()[workload.kind].companion_faults(workload, manifest)


def reserved(manifest: Manifest, key: str) -> str | None:
    """Return why `key` must not be set for the pods of a manifest, according to its kind; None if it may be."""
    structure = structure_of(manifest)
    return structure.reserved(manifest, key) if structure else None


def added_variables(manifest: Manifest) -> tuple[str, ...]:
    """Return the environment variables that Kubernetes adds to the containers of a manifest of this kind."""
    structure = structure_of(manifest)
    return structure.added_variables(manifest) if structure else ()


def is_known(manifest: Manifest) -> bool:
    """Whether `pods` returns all pods that come of `manifest`."""
    return is_of_kubernetes(manifest) or is_workload(manifest) or (manifest.api, manifest.kind) in POD_GROUPS


_LONGEST_NAME = 100


def replaced_gpus(manifest: Manifest, overlay: str, resource: str, count: str) -> Iterator[str]:
    """Yield a note for each number of GPUs of a pod template that the option `gpu` or `device-claim` replaces.

    `manifest` is that before the option, which sets `count` of `resource`, such as nvidia.com/gpu; of an empty one for
    `device-claim`.
    """
    for entry in pods(manifest):
        limits = mapping(at(entry.spec, ("containers", 0, "resources", "limits"))) if entry.computes else {}
        place = f"{overlay} ({shortened(entry.name, _LONGEST_NAME)})"
        for name, amount in limits.items():
            present = shortened(f"{name}: {amount}", _LONGEST_NAME)
            if not is_gpu_or_part(str(name)) and name != resource:
                continue
            if not resource:
                yield f"device-claim replaces {present} of {place}"
            elif name != resource:
                yield f"gpu replaces {present} of {place} by {resource}: {count}"
            elif str(amount) != count:
                yield f"gpu replaces {present} of {place} by {count}"
