"""Deletes a package from a cluster: surveys the existing objects, then deletes only those of the package."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from packager.base.errors import DeniedError
from packager.cluster.manifests import Manifests
from packager.cluster.observe import selector_flag
from packager.cluster.ownership import MANAGED_BY, PACKAGE, Identity, described, foreign_data, key, look_up, owner
from packager.cluster.removal import await_stragglers, remove
from packager.cluster.target import Target
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.manifest import Manifest
from packager.kubernetes.objects import Object, name, shown
from packager.workloads.kinds import kinds
from packager.workloads.pods import is_of_kubernetes
from packager.workloads.structures import structures

_HASH = re.compile(r"-[2456789bcdfghkmt]{10}$")
"""kustomize's suffix of a ConfigMap's name, which is a hash of its content (api/hasher: encode)."""


@dataclass(frozen=True, slots=True)
class PreparedDelete:
    """A delete that has been checked and may start."""

    target: Target  # the overlay, and the cluster
    workloads: tuple[Object, ...]  # the existing workloads of the package
    rest: tuple[Object, ...]  # the package's other objects to delete
    kept_claims: tuple[Object, ...]  # the claims that the user wants to keep
    # the objects with the names of the package's that belong to others, or contain their data, each with the owner
    others: tuple[tuple[Object, str], ...]

    @property
    def remark(self) -> str | None:
        """A sentence for a question to the user, if another person or build has deployed a part; else None."""
        remarks = (self.target.identity.remark(item) for item in (*self.workloads, *self.rest))
        return next((remark for remark in remarks if remark), None)

    @property
    def kept(self) -> tuple[str, ...]:
        """The objects that stay so that the results are kept, each as a name for kubectl."""
        return tuple(map(shown, self.kept_claims))


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of deleting a package from a cluster."""

    workload: str  # the workload's name for kubectl, such as `mpijob/name`; all names, if there are several
    objects: tuple[str, ...]  # the objects that were deleted, each as a name for kubectl
    kept: tuple[str, ...]  # the objects that stay so that the results are kept
    # the objects that were left because they do not belong to this package alone, and their owners
    others: tuple[tuple[Object, str], ...]
    missing: tuple[str, ...]  # the workloads that did not exist, each as a name for kubectl
    is_gone: bool = False  # whether the delete waited until all objects were gone

    @property
    def left(self) -> str:
        """The objects that were left, and their owners, as a list for a sentence."""
        return described(self.others)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "workload": self.workload,
            "objects": list(self.objects),
            "kept": list(self.kept),
            "others": [{"object": shown(item), "owner": owner} for item, owner in self.others],
            "gone": self.is_gone,
            "missing": list(self.missing),
        }


def prepare(target: Target, *, keep_results: bool = False) -> PreparedDelete:
    """Return the objects that a delete would remove and those that it would keep; change nothing."""
    manifests, identity = target.manifests, target.identity
    live = look_up(target.kubectl, manifests.objects)
    others: list[tuple[Object, str]] = []
    ours: list[Object] = []
    for manifest, item in ((manifest, live.get(key(manifest))) for manifest in manifests.objects):
        if item is None:
            continue
        if not identity.owns(item):
            others.append((item, owner(item)))
        elif foreign := foreign_data(item, manifest):
            others.append((item, "; ".join(foreign)))
        else:
            ours.append(item)
    running = set(map(key, manifests.workloads))
    workloads = [item for item in ours if key(item) in running]
    kept = [item for item in ours if keep_results and item["kind"] == "PersistentVolumeClaim"]
    rest = [item for item in ours if item not in workloads and item not in kept]
    rest += _earlier_config_maps(target.kubectl, manifests, identity)
    rest += switched_off(target.kubectl, manifests, identity)
    return PreparedDelete(target, tuple(workloads), tuple(rest), tuple(kept), tuple(others))


def planned(prepared: PreparedDelete) -> Deleted:
    """Return the result of a delete, without deleting anything."""
    target = prepared.target
    objects = tuple(shown(item) for item in (*prepared.workloads, *prepared.rest))
    existing = {shown(item) for item in (*prepared.workloads, *(item for item, _ in prepared.others))}
    missing = tuple(workload.shown for workload in target.per_workload if workload.shown not in existing)
    return Deleted(target.shown_all, objects, prepared.kept, prepared.others, missing)


def delete(prepared: PreparedDelete, *, timeout: float | None) -> Deleted:
    """Delete the package's objects and those that controllers made for it, and wait; None does not wait."""
    kubectl, workloads = prepared.target.kubectl, prepared.workloads
    # The workloads first: their pods must not lose their ConfigMaps while they run.
    for items in workloads, prepared.rest:
        remove(kubectl, items, timeout=timeout)
    if timeout is not None:
        for workload in workloads:
            await_stragglers(kubectl, kinds()[workload["kind"]], workload, timeout=timeout)
    return replace(planned(prepared), is_gone=timeout is not None)


def switched_off(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return the objects beside the workloads that earlier deploys created for options which are off now.

    Objects that the user may not see are left out, since such a user cannot have deployed them.
    """
    known = set(map(key, manifests.objects))
    sought = [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name(workload)}}
        for workload in manifests.workloads
        for api, kind in structures()[workload["kind"]].companion_kinds
        if (kind, name(workload)) not in known
    ]
    # One list of the groups replaces a request for each kind whose operator is not installed, which takes seconds until
    # it is certain that the cluster does not serve the kind.
    if not all(is_of_kubernetes(Manifest(item)) for item in sought) and (groups := kubectl.groups()) is not None:
        sought = [item for item in sought if is_of_kubernetes(Manifest(item)) or Manifest(item).group in groups]
    return [item for item in _visible(kubectl, sought) if identity.owns(item)]


def _visible(kubectl: Kubectl, sought: Sequence[Object]) -> list[Object]:
    """Return the existing objects that the user may see."""
    try:
        return list(look_up(kubectl, sought).values()) if sought else []
    except DeniedError:
        return [item for one in sought for item in _visible(kubectl, [one])] if len(sought) > 1 else []


def _earlier_config_maps(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return the package's ConfigMaps with earlier contents, whose names differ from the overlay's only in the hash."""
    names = {name(item) for item in manifests.objects if item["kind"] == "ConfigMap"}
    plain = {_HASH.sub("", hashed) for hashed in names if _HASH.search(hashed)}
    if not plain:
        return []
    try:
        items = kubectl.items("configmaps", selector_flag({MANAGED_BY: "mlpack", PACKAGE: identity.package}))
    except DeniedError:
        return []
    earlier = (item for item in items if _HASH.search(name(item)) and _HASH.sub("", name(item)) in plain)
    return [item for item in earlier if name(item) not in names and identity.owns(item)]
