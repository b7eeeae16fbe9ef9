"""Finds the claims that pods mount and that do not exist, and creates them. Tests: cli/test_run.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.base import quantity
from packager.base.errors import ClusterError, ToolError, UnreachableError, UsageError, VerificationError
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.client import HANGING_SECONDS
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import annotation, name, status
from packager.package import layout
from packager.rendering import render
from packager.verify import Checks, trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.runner import Tell
    from packager.cluster.manifests import Manifests
    from packager.cluster.target import Target
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


def may_be_bound_without_class(kubectl: Kubectl) -> bool:
    """Whether a claim that names no storage class may get a volume; true if the user may not look."""
    try:
        classes = kubectl.items("storageclasses")
        if any(annotation(one, "storageclass.kubernetes.io/is-default-class") == "true" for one in classes):
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


def create_claims(kubectl: Kubectl, described_claims: Sequence[Object]) -> None:
    """Create claims with `--save-config`, so that `kubectl apply` can change them later."""
    for claim in described_claims:
        stdin = json.dumps(claim).encode()
        command = ("create", "--save-config", "--filename=-", "--output=name")
        done = kubectl.run(*command, timeout=HANGING_SECONDS, stdin=stdin)
        if done.returncode != 0 and not messages.ALREADY_EXISTS.search(done.stderr):
            error = explained_error(done.stderr)
            raise ClusterError(f"the claim {name(claim)} cannot be created: {error}", hint=error.hint)


def missing_claims(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the missing claims that overlays of a package mount; none if the user may not read claims."""
    try:
        return missing(targets[0].kubectl, [target.manifests for target in targets])
    except UnreachableError:
        raise
    except ClusterError:
        return ()


def check_options(size: str | None, storage_class: str | None, access: str | None) -> None:
    """Refuse an invalid size of a claim, and a storage class or an access mode without a size.

    Raises:
        UsageError: The size is not a quantity, or a storage class or an access mode is set without a size.
    """
    try:
        is_positive = size is None or quantity.parse(size) > 0
    except ValueError:
        is_positive = False
    if not is_positive:
        raise UsageError(f"--claim-size {size}: expected a Kubernetes quantity such as 10Gi")
    for option, value in (("--claim-class", storage_class), ("--claim-access", access)):
        if size is None and value is not None:
            raise UsageError(f"{option} needs --claim-size")


def create_claim(target: Target, claim: str, size: str, storage_class: str | None, access: str) -> None:
    """Create a claim in the namespace of an overlay."""
    if storage_class is None and not may_be_bound_without_class(target.kubectl):
        message = f"claim {claim} is not created: the cluster has no default storage class"
        raise UsageError(message, hint="--claim-class NAME; `kubectl get storageclasses` lists the names")
    create_claims(target.kubectl, [described(claim, size, storage_class, access)])


def create_workspace(target: Target, tell: Tell) -> None:
    """Create the claim of the package's workspace, as the overlay `workspace` of the package describes it."""
    package, kubectl = target.package, target.kubectl
    assert package.workspace is not None
    outcome = render.render(package, layout.WORKSPACE, (kubectl.program,), kubectl.runner)
    problems = list(outcome.problems)
    if outcome.overlay is not None:
        problems += trust(package, outcome.overlay, Checks((kubectl.program,), namespace=kubectl.namespace))
    if problems:
        message = f"the overlay workspace of {package.source} did not pass verification; the claim was not created"
        raise VerificationError(message, problems=problems)
    if outcome.overlay is None:
        raise ToolError("; ".join(outcome.unchecked))
    create_claims(kubectl, [manifest.data for manifest in outcome.overlay.manifests])
    tell(f"claim {package.workspace} is created, as the package's overlay workspace says; mlpack does not delete it")
