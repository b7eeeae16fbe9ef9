"""Checks whether an operator is running, by its Deployment and its lease. Tests: cluster/test_operator.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base.errors import DeniedError
from packager.kubernetes.objects import moment, name, true_condition

if TYPE_CHECKING:
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.workloads.workload import Operator


class Alive(StrEnum):
    """Whether an operator handles the jobs."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The state of an operator."""

    alive: Alive  # whether the operator is running
    evidence: str  # the evidence, in a sentence
    deployment: Object | None = None  # the operator's Deployment; None if none was found

    @property
    def image(self) -> str | None:
        """The image of the operator's Deployment; None without one."""
        if self.deployment is None:
            return None
        return str(self.deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def check_heartbeat(kubectl: Kubectl, operator: Operator) -> Heartbeat:
    """Return whether an operator is running, in any namespace of the cluster.

    A lease is stronger evidence than a Deployment: an operator may run outside the cluster, and a running pod may be
    idle.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    deployments, refused = _objects_named(kubectl, "deployments.apps", operator.deployment)
    deployment = next(iter(sorted(deployments, key=lambda item: not true_condition(item, "Available"))), None)
    leases, also_refused = _objects_named(kubectl, "leases.coordination.k8s.io", operator.lease)
    lease = max(leases, key=_renew_time, default=None)
    if lease is not None:
        where = f"its lease {lease['metadata']['namespace']}/{name(lease)}"
        if _is_renewed(kubectl, lease, operator.lease_seconds):
            holder = str(lease["spec"].get("holderIdentity")).partition("_")[0]  # host_uuid, by client-go's custom
            return Heartbeat(Alive.YES, f"{where} is renewed by {holder}", deployment)
        return Heartbeat(Alive.NO, f"{where} was last renewed at {_renew_time(lease) or 'no time'}", deployment)
    if deployment is not None:
        where = f"its Deployment {deployment['metadata']['namespace']}/{name(deployment)}"
        if true_condition(deployment, "Available"):
            return Heartbeat(Alive.YES, f"{where} is available", deployment)
        return Heartbeat(Alive.NO, f"{where} is not available", deployment)
    if refused or also_refused:
        return Heartbeat(Alive.UNKNOWN, "you are not allowed to see its Deployment or its lease")
    return Heartbeat(Alive.NO, "it has no Deployment and no lease")


def _is_renewed(kubectl: Kubectl, lease: Object, default: int) -> bool:
    """Whether a lease is renewed: it is fresh, or changes within its duration.

    A lease that was not renewed for a quarter of its duration is watched, since its controller may have stopped, or the
    clocks may differ: of 15 seconds, JobSet and Kueue renew it every 2, and mpi-operator every 3.
    """
    seconds = lease["spec"].get("leaseDurationSeconds") or default
    if not lease["spec"].get("holderIdentity"):
        return False
    renewed = _renew_time(lease)
    if renewed and abs((kubectl.runner.now() - moment(renewed)).total_seconds()) <= seconds / 4:
        return True
    where = f"--namespace={lease['metadata']['namespace']}"
    for _ in range(seconds):
        kubectl.runner.sleep(1)
        again = kubectl.items(f"leases.coordination.k8s.io/{name(lease)}", where)
        if not again:
            return False
        if _renew_time(again[0]) != renewed:
            return True
    return False


def _renew_time(lease: Object) -> str:
    return str(lease["spec"].get("renewTime") or "")


def _objects_named(kubectl: Kubectl, resource: str, name: str) -> tuple[list[Object], bool]:
    """Return the objects with a name in all namespaces, and whether the user is not allowed to list them."""
    try:
        return kubectl.items(resource, "--all-namespaces", f"--field-selector=metadata.name={name}"), False
    except DeniedError:
        return [], True
