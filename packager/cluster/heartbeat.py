"""Whether an operator is at work, and not only its CRD there: its Deployment, and the lease that it keeps renewing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.cluster.objects import holds, moment, name
from packager.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.cluster.client import Kubectl
    from packager.cluster.objects import Object

_LEASE_SECONDS = 15
"""What mpi-operator takes (cmd/mpi-operator/app/server.go); a lease says its own."""


class Alive(StrEnum):
    """Whether somebody acts on the jobs."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What could be seen of an operator.

    Attributes:
        alive: Whether it acts.
        evidence: How that is known, in a sentence.
        deployment: Its Deployment, when one was found.
    """

    alive: Alive
    evidence: str
    deployment: Object | None = None

    @property
    def image(self) -> str | None:
        """The image that its Deployment runs."""
        if self.deployment is None:
            return None
        return str(self.deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def listen(
    kubectl: Kubectl,
    operator: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] | None = None,
) -> Heartbeat:
    """Return whether the operator called `operator` is at work, wherever in the cluster it is.

    A lease counts for more than a Deployment: an operator may run beside the cluster, and a pod that runs may be idle.

    Args:
        kubectl: The user's.
        operator: The name that its Deployment and its lease have.
        now: The time here, which need not be the server's.
        sleep: Waits for seconds; None for really waiting.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    named = ("--all-namespaces", f"--field-selector=metadata.name={operator}")
    deployments, refused = _readable(kubectl, "deployments.apps", *named)
    deployment = next(iter(sorted(deployments, key=lambda each: not holds(each, "Available"))), None)
    leases, also_refused = _readable(kubectl, "leases.coordination.k8s.io", *named)
    lease = max(leases, key=_renewed, default=None)
    if lease is not None:
        where = f"its lease {lease['metadata']['namespace']}/{name(lease)}"
        if _beats(kubectl, lease, now, sleep or time.sleep):
            holder = str(lease["spec"].get("holderIdentity")).partition("_")[0]  # host_uuid, by client-go's custom
            return Heartbeat(Alive.YES, f"{where} is renewed by {holder}", deployment)
        return Heartbeat(Alive.NO, f"{where} was last renewed at {_renewed(lease) or 'no time'}", deployment)
    if deployment is not None:
        where = f"its Deployment {deployment['metadata']['namespace']}/{name(deployment)}"
        if holds(deployment, "Available"):
            return Heartbeat(Alive.YES, f"{where} is available", deployment)
        return Heartbeat(Alive.NO, f"{where} is not available", deployment)
    if refused or also_refused:
        return Heartbeat(Alive.UNKNOWN, "you may not see its Deployment, nor its lease")
    return Heartbeat(Alive.NO, "there is neither a Deployment nor a lease of it")


def _beats(kubectl: Kubectl, lease: Object, now: Callable[[], datetime], sleep: Callable[[float], None]) -> bool:
    """Whether the lease is fresh; when it looks stale, which may be the clocks' fault, whether it is renewed at all."""
    seconds = lease["spec"].get("leaseDurationSeconds") or _LEASE_SECONDS
    if not lease["spec"].get("holderIdentity"):
        return False
    renewed = _renewed(lease)
    if renewed and abs((now() - moment(renewed)).total_seconds()) <= seconds:
        return True
    where = f"--namespace={lease['metadata']['namespace']}"
    for _ in range(seconds):
        sleep(1)
        again = kubectl.items(f"leases.coordination.k8s.io/{name(lease)}", where)
        if not again:
            return False
        if _renewed(again[0]) != renewed:
            return True
    return False


def _renewed(lease: Object) -> str:
    return str(lease["spec"].get("renewTime") or "")


def _readable(kubectl: Kubectl, *what: str) -> tuple[list[Object], bool]:
    """Return what there is, and whether the user may not see it."""
    try:
        return kubectl.items(*what), False
    except ClusterError as error:
        if "forbidden" not in str(error).lower():
            raise
        return [], True
