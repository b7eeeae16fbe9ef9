"""Finds objects of earlier deploys that an overlay no longer contains. Tests: cluster/test_ownership.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import DeniedError
from packager.cluster.observe import selector_flag
from packager.cluster.ownership import MANAGED_BY, PACKAGE, key, look_up
from packager.kubernetes.manifest import Manifest
from packager.kubernetes.objects import name
from packager.workloads.pods import is_of_kubernetes
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Identity
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

_HASH = re.compile(r"-[2456789bcdfghkmt]{10}$")
"""kustomize's suffix of a ConfigMap's name, which is a hash of its content (api/hasher: encode)."""


def leftovers(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return the package's objects that earlier deploys of this overlay have created and this one does not contain.

    These are ConfigMaps with earlier contents, and objects of options that were switched off since.
    """
    config_maps = [
        item
        for item in _config_maps(kubectl, manifests, identity)
        if key(item) not in set(map(key, manifests.objects)) and identity.owns(item)
    ]
    return [*config_maps, *switched_off(kubectl, manifests, identity)]


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
    return [item for item in _visible(kubectl, _of_served_groups(kubectl, sought)) if identity.owns(item)]


def _of_served_groups(kubectl: Kubectl, sought: Sequence[Object]) -> Sequence[Object]:
    """Return the objects whose API group the cluster has.

    One list of the groups replaces a request for each kind whose operator is not installed, which takes seconds until
    it is certain that the cluster does not serve the kind.
    """
    others = [item for item in sought if not is_of_kubernetes(Manifest(item))]
    if not others:
        return sought
    groups = kubectl.groups()
    return [item for item in sought if groups is None or item not in others or Manifest(item).group in groups]


def _visible(kubectl: Kubectl, sought: Sequence[Object]) -> list[Object]:
    """Return the existing objects that the user may see."""
    if not sought:
        return []
    try:
        return list(look_up(kubectl, sought).values())
    except DeniedError:
        pass
    if len(sought) == 1:
        return []
    return [item for one in sought for item in _visible(kubectl, [one])]


def _config_maps(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return the package's ConfigMaps whose names differ from those of the overlay only in the hash."""
    names = {name(item) for item in manifests.objects if item["kind"] == "ConfigMap"}
    plain = {_HASH.sub("", hashed) for hashed in names if _HASH.search(hashed)}
    if not plain:
        return []
    try:
        items = kubectl.items("configmaps", selector_flag({MANAGED_BY: "mlpack", PACKAGE: identity.package}))
    except DeniedError:
        return []
    return [item for item in items if _HASH.search(name(item)) and _HASH.sub("", name(item)) in plain]
