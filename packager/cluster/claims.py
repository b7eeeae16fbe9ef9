"""Finds the claims that pods mount and that do not exist, and creates them. Tests: cli/test_run.py."""

from collections.abc import Sequence

from packager.base import units
from packager.base.errors import ClusterError, ToolError, UsageError, VerificationError
from packager.base.process import Tell
from packager.cluster.apply import create
from packager.cluster.observe import if_allowed
from packager.cluster.target import Target
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import Object, annotation, name, status
from packager.package import layout
from packager.rendering import render
from packager.verify import Checks, trust


def missing_claims(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the claims that the pods of a package's overlays mount, that none of these creates and that do not exist.

    None are returned if the user may not read claims.
    """
    kubectl = targets[0].kubectl
    mounted: dict[str, None] = {}
    created: set[str] = set()
    for manifests in (target.manifests for target in targets):
        created |= {name(item) for item in manifests.objects if item["kind"] == "PersistentVolumeClaim"}
        for one in manifests.per_workload:
            volumes = map(mapping, listing(one.kind.pod_template(one.workload).get("volumes")))
            claims = (mapping(volume.get("persistentVolumeClaim")).get("claimName") for volume in volumes)
            mounted |= {str(claim): None for claim in claims if claim}
    own = [claim for claim in mounted if claim not in created]
    return if_allowed(
        lambda: tuple(claim for claim in own if kubectl.get(f"persistentvolumeclaims/{claim}") is None), ()
    )


def may_be_bound_without_class(kubectl: Kubectl) -> bool:
    """Whether a claim that names no storage class may get a volume; true if the user may not look."""
    try:
        classes, volumes = kubectl.items("storageclasses"), kubectl.items("persistentvolumes")
    except ClusterError:
        return True
    key = "storageclass.kubernetes.io/is-default-class"
    free = [
        one for one in volumes if status(one).get("phase") == "Available" and not one["spec"].get("storageClassName")
    ]
    return bool(free) or any(annotation(one, key) == "true" for one in classes)


def _create_claim(kubectl: Kubectl, claim: Object) -> None:
    """Create a claim with `--save-config`, so that `kubectl apply` can change it later."""
    done = create(kubectl, claim, "--save-config", "--output=name")
    if done.returncode != 0 and not messages.ALREADY_EXISTS.search(done.stderr):
        error = explained_error(done.stderr)
        raise ClusterError(f"the claim {name(claim)} cannot be created: {error}", hint=error.hint)


def check_options(size: str | None, storage_class: str | None, access: str | None) -> None:
    """Refuse an invalid size of a claim, and a storage class or an access mode without a size."""
    try:
        is_positive = size is None or units.parse_quantity(size) > 0
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
    spec = {"accessModes": [access], "resources": {"requests": {"storage": size}}}
    spec |= {} if storage_class is None else {"storageClassName": storage_class}
    identity = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}}
    _create_claim(target.kubectl, {**identity, "spec": spec})


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
    for manifest in outcome.overlay.manifests:
        _create_claim(kubectl, manifest.data)
    tell(f"claim {package.workspace} is created, as the package's overlay workspace says; mlpack does not delete it")
