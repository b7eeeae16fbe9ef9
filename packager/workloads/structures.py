"""Finds the Structure of each kind, and reads manifests with it. Tests: workloads/test_pods.py."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at
from packager.workloads import of_each_kind
from packager.workloads.pods import is_of_kubernetes, of_kubernetes
from packager.workloads.structure import POD_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.faults import Fault
    from packager.kubernetes.manifest import Manifest
    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods
    from packager.workloads.structure import Structure


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
