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
    from collections.abc import Sequence

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
    config_maps = [
        item
        for item in _config_maps(kubectl, manifests, identity)
        if key(item) not in set(map(key, manifests.objects)) and identity.owns(item)
    ]
    return [*config_maps, *switched_off(kubectl, manifests, identity)]


def switched_off(kubectl: Kubectl, manifests: Manifests, identity: Identity) -> list[Object]:
    """Return what an option of an earlier deploy has put beside a workload, and none does any more.

    What the user may not see is left out: who may not see it has not deployed it.

    Raises:
        ClusterError: The cluster cannot say.
    """
    known = set(map(key, manifests.objects))
    sought = [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name(workload)}}
        for workload in manifests.workloads
        for api, kind in structures()[workload["kind"]].companion_kinds
        if (kind, name(workload)) not in known
    ]
    return [item for item in _visible(kubectl, sought) if identity.owns(item)]


def _visible(kubectl: Kubectl, sought: Sequence[Object]) -> list[Object]:
    """Return what is there and the user may see."""
    if not sought:
        return []
    try:
        return list(look_up(kubectl, sought).values())
    except ClusterError as error:
        if not is_forbidden(error):
            raise
    if len(sought) == 1:
        return []
    return [item for one in sought for item in _visible(kubectl, [one])]


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
