"""Installs, checks and removes the operators that workloads need, at a pinned version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, UnreachableError
from packager.cluster.ownership import FIELD_MANAGER, managers, owner
from packager.cluster.removal import remove
from packager.diagnosis.obstacles import obstacles
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.objects import annotation, condition, name, owners, shown, status, true_condition, uid
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.operator_release import Bundle
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.verdict import Finding
    from packager.workloads.operator import Operator


_USER_RESOURCES = (
    "services",
    "configmaps",
    "secrets",
    "persistentvolumeclaims",
    "statefulsets.apps",
    "daemonsets.apps",
)
"""The resources, besides workloads, that users keep in a namespace."""

_ORDER = {
    "deployment": 0,
    "serviceaccount": 1,
    "clusterrolebinding": 1,
    "clusterrole": 1,
    "customresourcedefinition": 2,
    "namespace": 4,
}
"""The order in which kinds are deleted: Deployments first, namespaces last; other kinds come before the namespaces."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ROOT_CA = "kube-root-ca.crt"
_IMAGE_HINT = "use --from FILE with a manifest whose image the nodes can pull"


def served(kubectl: Kubectl, operator: Operator) -> tuple[str, ...]:
    """Return the served versions of the operator's kind; none if its CRD is not established.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    crd = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{operator.crd}")
    if crd is None or not true_condition(crd, "Established"):
        return ()
    return tuple(version["name"] for version in crd["spec"]["versions"] if version.get("served"))


def jobs(kubectl: Kubectl, operator: Operator) -> tuple[list[Object], list[Object]]:
    """Return the jobs in all namespaces that still run, and those that have ended.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    kind = kinds()[operator.kind]
    running: list[Object] = []
    ended: list[Object] = []
    for job in kubectl.items(operator.crd, "--all-namespaces"):
        (ended if kind.ending(Snapshot(job)) else running).append(job)
    return running, ended


def install(
    kubectl: Kubectl,
    operator: Operator,
    manifests: Bundle,
    *,
    dry_run: str | None = None,
    force_conflicts: bool = False,
) -> str:
    """Apply the operator with server-side apply, and return kubectl's message about each object.

    Raises:
        ClusterError: The cluster refuses, or a CRD of this name does not serve the needed version.
    """
    versions = served(kubectl, operator)
    if versions and operator.api.partition("/")[2] not in versions:
        raise _rival_error(operator, versions)
    arguments = ["apply", "--server-side", f"--field-manager={FIELD_MANAGER}"]
    if dry_run == "client":  # kubectl has no client-side dry run of a server-side apply
        arguments = ["apply"]
    arguments += ["--force-conflicts"] if force_conflicts else []
    arguments += [f"--dry-run={dry_run}"] if dry_run else []
    return _run(kubectl, arguments, manifests)


def _rival_error(operator: Operator, versions: Sequence[str]) -> ClusterError:
    message = f"{operator.crd} already exists and serves {', '.join(versions)}"
    if operator.rival is None:
        return ClusterError(message, hint=f"packages need {operator.api}: remove the CRD first")
    hint = f"both have a CRD of this name, and a cluster can have only one: remove that of {operator.rival} first"
    return ClusterError(f"{message}: most likely that of {operator.rival}", hint=hint)


def wait_until_ready(kubectl: Kubectl, manifests: Bundle) -> Iterator[str]:
    """Yield, about once per second, the reason why the operator is not ready, until it is.

    Raises:
        ClusterError: The operator cannot become ready.
    """
    since: dict[str, float] = {}
    while True:
        try:
            waiting, trouble = _pending(kubectl, manifests)
        except UnreachableError as error:
            waiting, trouble = str(error), None
        if waiting is None:
            return
        if trouble is not None:
            started = since.setdefault(trouble.message, kubectl.runner.clock())
            if kubectl.runner.clock() - started >= trouble.final_after:
                hint = _IMAGE_HINT if trouble.reason == "ErrImagePull" else trouble.hint
                raise ClusterError(f"the operator does not start: {trouble}", hint=hint)
            waiting = str(trouble)
        else:
            since.clear()
        yield waiting
        kubectl.runner.sleep(1)


@dataclass(frozen=True, slots=True)
class Installed:
    """The objects of an operator that are in the cluster.

    Attributes:
        ours: The objects that `install` has applied, in the order in which they are deleted.
        others: The objects of others, each with its owner.
    """

    ours: tuple[Object, ...]
    others: tuple[tuple[Object, str], ...]


def installed(kubectl: Kubectl, operator: Operator, manifests: Bundle | None, *, keep_crds: bool) -> Installed:
    """Return the objects that `uninstall` would delete, and those that it would keep because others created them.

    Args:
        kubectl: The user's kubectl.
        operator: The operator.
        manifests: The objects to look for; None for those of the release.
        keep_crds: Whether to keep the CRDs, and so all jobs.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    ours: list[Object] = []
    others: list[tuple[Object, str]] = []
    for kind, resource, namespace in _removable(operator, manifests, keep_crds=keep_crds):
        where = (f"--namespace={namespace}",) if namespace else ()
        for item in kubectl.items(f"{kind}/{resource}", *where, "--show-managed-fields"):
            if not _is_own(item):
                others.append(
                    (item, "managed by another installer" if FIELD_MANAGER in managers(item) else owner(item))
                )
            elif item["kind"] == "Namespace" and (guests := _foreign_objects(kubectl, resource, ours)):
                others.append((item, f"it contains {guests}"))
            else:
                ours.append(item)
    if not any(FIELD_MANAGER in managers(item) for item in ours):
        return Installed((), (*others, *((item, owner(item)) for item in ours)))
    return Installed(tuple(ours), tuple(others))


def uninstall(kubectl: Kubectl, items: Sequence[Object], *, timeout: float) -> None:
    """Delete objects one after the other, and wait until they are deleted.

    Raises:
        TimedOutError: An object still exists after `timeout` seconds.
        ClusterError: The cluster refuses.
    """
    deadline = kubectl.runner.clock() + timeout
    for item in items:
        to = replace(kubectl, namespace=item["metadata"].get("namespace"))
        remove(to, [item], timeout=max(0.0, deadline - kubectl.runner.clock()))


def _is_own(item: Object) -> bool:
    """Whether `install` may have applied the object, and no other tool (Helm, Argo CD, kubectl apply) claims it."""
    claims = ("meta.helm.sh/release-name", "argocd.argoproj.io/tracking-id", _LAST_APPLIED)
    is_claimed = any(annotation(item, claim) for claim in claims)
    # An object that is applied with only a name, such as a ServiceAccount, has no field manager.
    return not is_claimed and (FIELD_MANAGER in managers(item) or not managers(item))


def _foreign_objects(kubectl: Kubectl, namespace: str, ours: Sequence[Object]) -> str:
    """Return the objects of others in a namespace, except those of controllers, as a list in a sentence."""
    where = f"--namespace={namespace}"
    resources = (*_workload_resources(kubectl, ours), *_USER_RESOURCES)
    items = [item for resource in resources for item in kubectl.items(resource, where)]
    known = {uid(item) for item in ours}
    guests = [item for item in items if uid(item) not in known and not owners(item) and name(item) != _ROOT_CA]
    return ", ".join(shown(item) for item in guests)


def _workload_resources(kubectl: Kubectl, ours: Sequence[Object]) -> Iterator[str]:
    """Yield the resources of the served kinds of workload, except those whose CRD is among `ours`."""
    removed = {name(item) for item in ours if item["kind"] == "CustomResourceDefinition"}
    for kind in kinds().values():
        if kind.operator is None or (kind.operator.crd not in removed and served(kubectl, kind.operator)):
            yield kind.resource


def _removable(operator: Operator, manifests: Bundle | None, *, keep_crds: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, name and namespace of the objects to delete, in the order of _ORDER."""
    brought = [_reference(item) for item in manifests.objects] if manifests else list(operator.brings)
    brought.sort(key=lambda entry: _ORDER.get(entry[0], 3))
    yield from (entry for entry in brought if not (keep_crds and entry[0] == "customresourcedefinition"))


def _reference(item: Object) -> tuple[str, str, str]:
    return str(item["kind"]).lower(), name(item), str(item["metadata"].get("namespace") or "")


def _pending(kubectl: Kubectl, manifests: Bundle) -> tuple[str | None, Finding | None]:
    """Return the reason why the operator is not ready (None if it is), and the finding that may explain it."""
    for crd in manifests.of("CustomResourceDefinition"):
        live = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{name(crd)}")
        if live is None or not true_condition(live, "Established"):
            return f"{name(crd)} is not established yet", None
    for manifest in manifests.of("Deployment"):
        where = f"--namespace={manifest['metadata'].get('namespace') or 'default'}"
        live = next(iter(kubectl.items(f"deployments.apps/{name(manifest)}", where)), None)
        if live is None:
            return f"{shown(manifest)} does not exist yet", None
        if _is_available(live):
            continue
        refused = condition(live, "ReplicaFailure")
        if refused and refused["status"] == "True":
            raise ClusterError(f"{shown(manifest)} cannot create its pods: {refused.get('message')}")
        selector = live["spec"]["selector"]["matchLabels"]
        pods = kubectl.items("pods", where, f"--selector={','.join(f'{k}={v}' for k, v in selector.items())}")
        events = kubectl.items("events", where)
        troubles = [finding for pod in pods for finding in obstacles(pod, events) if finding.blocks]
        return f"{shown(manifest)}: not all of its pods are available yet", min(troubles, key=_patience, default=None)
    return None, None


def _patience(finding: Finding) -> float:
    return finding.final_after


def _is_available(deployment: Object) -> bool:
    """Whether every pod is updated and available, by the rules of `kubectl rollout status`."""
    counts = status(deployment)
    is_current = counts.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    updated = counts.get("updatedReplicas", 0)
    is_complete = deployment["spec"].get("replicas", 1) <= updated and counts.get("replicas", 0) <= updated
    return bool(is_current and is_complete and counts.get("availableReplicas", 0) >= updated)


def _run(kubectl: Kubectl, arguments: list[str], manifests: Bundle) -> str:
    with manifests.file() as file:
        done = kubectl.run(*arguments, f"--filename={file}")
    if done.returncode != 0:
        raise explained_error(done.stderr)
    return str(done.stdout)
