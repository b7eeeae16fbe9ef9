"""Lists the missing claims that a package's pods mount, and creates them. Tests: cli/test_run.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import quantity
from packager.base.errors import ClusterError, ToolError, UnreachableError, UsageError, VerificationError
from packager.cluster import claims
from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.app.progress import Tell
    from packager.app.target import Target


def missing(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the missing claims that overlays of a package mount; none if the user may not read claims."""
    try:
        return claims.missing(targets[0].kubectl, [target.manifests for target in targets])
    except UnreachableError:
        raise
    except ClusterError:
        return ()


def check(size: str | None, storage_class: str | None, access: str | None) -> None:
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


def create(target: Target, claim: str, size: str, storage_class: str | None, access: str) -> None:
    """Create a claim in the namespace of an overlay.

    Raises:
        UsageError: No storage class is named, and the cluster has no default one.
        ClusterError: The cluster refuses the claim.
    """
    if storage_class is None and not claims.may_be_bound_without_class(target.kubectl):
        message = f"claim {claim} is not created: the cluster has no default storage class"
        raise UsageError(message, hint="--claim-class NAME; `kubectl get storageclasses` lists the names")
    claims.create(target.kubectl, [claims.described(claim, size, storage_class, access)])


def create_workspace(target: Target, tell: Tell) -> None:
    """Create the claim of the package's workspace, as the overlay `workspace` of the package describes it.

    Args:
        target: An overlay of the package, and the cluster.
        tell: Receives the message that the claim was created.

    Raises:
        VerificationError: This overlay creates other objects, or may not be applied; nothing was applied.
        ClusterError: The cluster refuses the claim.
        ToolError: The overlay cannot be rendered.
    """
    from packager.rendering import render
    from packager.verify import Checks, trust

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
    claims.create(kubectl, [manifest.data for manifest in outcome.overlay.manifests])
    tell(f"claim {package.workspace} is created, as the package's overlay workspace says; mlpack does not delete it")
