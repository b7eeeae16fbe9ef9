"""Finds the claims that pods mount and that do not exist, and creates them. Tests: cli/test_run.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.client import HANGING_SECONDS
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import annotation, name, status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.manifests import Manifests
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object


def missing(kubectl: Kubectl, overlays: Sequence[Manifests]) -> tuple[str, ...]:
    """Return the claims that the pods of overlays mount, that none of the overlays creates and that do not exist.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    mounted: dict[str, None] = {}
    created: set[str] = set()
    for overlay in overlays:
        created |= {name(item) for item in overlay.objects if item["kind"] == "PersistentVolumeClaim"}
        for one in overlay.per_workload:
            for volume in listing(one.kind.pod_template(one.workload).get("volumes")):
                if claim := mapping(mapping(volume).get("persistentVolumeClaim")).get("claimName"):
                    mounted[str(claim)] = None
    return tuple(
        claim for claim in mounted if claim not in created and kubectl.get(f"persistentvolumeclaims/{claim}") is None
    )


def is_default_class(storage_class: Object) -> bool:
    """Whether a claim that names no storage class gets this one."""
    return annotation(storage_class, "storageclass.kubernetes.io/is-default-class") == "true"


def may_be_bound_without_class(kubectl: Kubectl) -> bool:
    """Whether a claim that names no storage class may get a volume; true if the user may not look."""
    try:
        if any(map(is_default_class, kubectl.items("storageclasses"))):
            return True
        volumes = kubectl.items("persistentvolumes")
    except ClusterError:
        return True
    return any(
        status(volume).get("phase") == "Available" and not volume["spec"].get("storageClassName") for volume in volumes
    )


def described(claim: str, size: str, storage_class: str | None, access: str) -> Object:
    """Return the manifest of a claim.

    Args:
        claim: The claim's name.
        size: The requested storage, as a quantity.
        storage_class: The storage class; None for the cluster's default.
        access: The access mode.
    """
    spec = {"accessModes": [access], "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim},
        "spec": spec if storage_class is None else {**spec, "storageClassName": storage_class},
    }


def create(kubectl: Kubectl, described_claims: Sequence[Object]) -> None:
    """Create claims with `--save-config`, so that `kubectl apply` can change them later.

    Raises:
        ClusterError: The cluster refuses a claim; one that already exists is no error.
    """
    for claim in described_claims:
        stdin = json.dumps(claim).encode()
        command = ("create", "--save-config", "--filename=-", "--output=name")
        done = kubectl.run(*command, timeout=HANGING_SECONDS, stdin=stdin)
        if done.returncode != 0 and not messages.ALREADY_EXISTS.search(done.stderr):
            error = explained_error(done.stderr)
            raise ClusterError(f"the claim {name(claim)} cannot be created: {error}", hint=error.hint)
