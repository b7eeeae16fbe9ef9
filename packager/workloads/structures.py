"""Structure: the base class for the manifests of a kind, and what all kinds say of a manifest.

Tests: workloads/test_pods.py.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from packager.base.problems import Fault
from packager.kubernetes.manifest import at, mapping, out_of_range
from packager.workloads import of_each_kind
from packager.workloads.pods import is_of_kubernetes, of_kubernetes
from packager.workloads.program import ADDED, reserved_by, torchrun_faults

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

    companion_kinds: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The apiVersions and kinds of the objects that a build adds to the workload; each has the workload's name."""

    counts: ClassVar[tuple[str, ...]] = ()
    """The numbers from 1 that env files fill, as paths below the places of `count_places`."""

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

    def count_places(self, manifest: Manifest) -> Iterable[Location]:  # noqa: ARG002 - a JobSet has several
        """Return the places that have the numbers of `counts`."""
        return (("spec",),)

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield values of env files with which the pods would fail or wait, although the cluster accepts them.

        The API server, webhooks and operators say the rest within seconds.
        """
        for place in self.count_places(manifest):
            for location in ((*place, *path.split(".")) for path in self.counts):
                if message := out_of_range(at(manifest.data, location), (1, None)):
                    yield Fault(location, message)
        yield from (fault for pods in self.pods(manifest) for fault in torchrun_faults(pods))

    def setters_of(self, manifest: Manifest) -> tuple[str, ...]:  # noqa: ARG002 - a Job depends on it
        """Return the setters of variables in the pods of a manifest."""
        return self.setters

    def reserved(self, manifest: Manifest, key: str) -> str | None:
        """Return why the environment variable `key` of its pods must not be set; None if it may be."""
        return reserved_by(key, *self.setters_of(manifest))

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the environment variables that Kubernetes adds to its containers, beside what the manifest says."""
        return tuple(name for setter in self.setters_of(manifest) for name in ADDED.get(setter, ()))


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
