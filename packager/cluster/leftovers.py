"""Finds objects of earlier deploys that an overlay does not contain any more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cluster.observe import selector_flag
from packager.cluster.ownership import MANAGED_BY, PACKAGE, key, look_up
from packager.kubectl.refusals import is_forbidden
from packager.kubernetes.objects import name
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Identity
    from packager.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

_HASH = re.compile(r"-[2456789bcdfghkmt]{10}$")
"""What kustomize puts behind the name of a ConfigMap that is called after its content (api/hasher: encode)."""


def leftovers(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return the package's objects that earlier deploys of this overlay have created and this one does not contain.

    These are ConfigMaps of earlier contents, and what an option has put beside a workload that is off now.

    Raises:
        ClusterError: The cluster cannot say.
    """
    known = {key(item) for item in manifests.objects}
    items = [*_config_maps(kubectl, manifests, identity), *_beside(kubectl, manifests)]
    return [item for item in items if key(item) not in known and identity.owns(item)]


def _config_maps(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return the package's ConfigMaps whose names differ from those of its overlay in nothing but the hash."""
    names = {name(item) for item in manifests.objects if item["kind"] == "ConfigMap"}
    plain = {_HASH.sub("", hashed) for hashed in names if _HASH.search(hashed)}
    if not plain:
        return []
    try:
        items = kubectl.items("configmaps", selector_flag({MANAGED_BY: "mlpack", PACKAGE: identity.package}))
    except ClusterError as error:
        if not is_forbidden(error):
            raise
        return []
    return [item for item in items if _HASH.search(name(item)) and _HASH.sub("", name(item)) in plain]


def _beside(kubectl: Kubectl, manifests: Manifests) -> list[Object]:
    """Return what is in the cluster of all that a build may make beside the workloads."""
    sought = [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name(workload)}}
        for workload in manifests.workloads
        for api, kind in structures()[workload["kind"]].companion_kinds
    ]
    return list(look_up(kubectl, sought).values()) if sought else []
