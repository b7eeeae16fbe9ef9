"""Finds out whether the operators that workloads need are installed, and run."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packager.base.errors import ClusterError, DeniedError, ToolError
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.objects import Object, moment, name, true_condition
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import Operator, kinds, operators


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
    """
    found: list[list[Object]] = []
    is_refused = False
    for resource, named in (("deployments.apps", operator.deployment), ("leases.coordination.k8s.io", operator.lease)):
        try:
            found.append(kubectl.items(resource, "--all-namespaces", f"--field-selector=metadata.name={named}"))
        except DeniedError:
            found.append([])
            is_refused = True
    deployments, leases = found
    deployment = min(deployments, key=lambda item: not true_condition(item, "Available"), default=None)
    if leases:
        lease = max(leases, key=_renew_time)
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
    if is_refused:
        return Heartbeat(Alive.UNKNOWN, "you are not allowed to see its Deployment or its lease")
    return Heartbeat(Alive.NO, "it has no Deployment and no lease")


def _is_renewed(kubectl: Kubectl, lease: Object, default: int) -> bool:
    """Whether a lease is renewed: it is fresh, or changes within its duration.

    A lease that was not renewed for a quarter of its duration is watched, since its controller may have stopped, or the
    clocks may differ: of 15 seconds, JobSet and Kueue renew it every 2, and mpi-operator every 3.
    """
    seconds = lease["spec"].get("leaseDurationSeconds") or default
    renewed = _renew_time(lease)
    if not lease["spec"].get("holderIdentity"):
        return False
    if renewed and abs((kubectl.runner.now() - moment(renewed)).total_seconds()) <= seconds / 4:
        return True
    where = f"--namespace={lease['metadata']['namespace']}"
    kubectl.runner.sleep(seconds)
    again = kubectl.items(f"leases.coordination.k8s.io/{name(lease)}", where)
    return bool(again) and _renew_time(again[0]) != renewed


def _renew_time(lease: Object) -> str:
    return str(lease["spec"].get("renewTime") or "")


def served(kubectl: Kubectl, operator: Operator) -> tuple[str, ...]:
    """Return the served versions of the operator's kind; none if its CRD is not established."""
    crd = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{operator.crd}")
    if crd is None or not true_condition(crd, "Established"):
        return ()
    return tuple(version["name"] for version in crd["spec"]["versions"] if version.get("served"))


def operator_names() -> dict[str, str]:
    """Return the name of each operator, by its short name on the command line."""
    return {short: operator.name for short, operator in operators().items()}


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """An operator in a cluster."""

    operator: Operator  # the operator
    served: tuple[str, ...]  # the versions of the operator's kind that the cluster serves; empty without its CRD
    heartbeat: Heartbeat  # whether the operator is running, with the evidence
    running: int  # the number of jobs of the kind, in all namespaces, that still run
    ended: int  # the number of those that have ended

    @property
    def needed(self) -> str:
        """The version that packages need."""
        return self.operator.api.partition("/")[2]

    @property
    def exit_code(self) -> int:
        """0 when packages can run, 7 when they cannot, 6 when that is unknown."""
        if self.heartbeat.alive is Alive.UNKNOWN:
            return ToolError.exit_code
        is_fit = self.heartbeat.alive is Alive.YES and self.needed in self.served
        return 0 if is_fit else ClusterError.exit_code

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "operator": self.operator.name,
            "crd": self.operator.crd if self.served else None,
            "served": list(self.served),
            "alive": self.heartbeat.alive,
            "evidence": self.heartbeat.evidence,
            "image": self.heartbeat.image,
            "jobs": {"running": self.running, "ended": self.ended},
            "tried": self.operator.version,
        }


def status(kubectl: Kubectl, name: str) -> OperatorStatus:
    """Return whether the operator `name` is installed and running."""
    operator = operators()[name]
    versions = served(kubectl, operator)
    heartbeat = check_heartbeat(kubectl, operator)
    jobs = kubectl.items(operator.crd, "--all-namespaces") if versions else []
    ended = sum(kinds()[operator.kind].ending(Snapshot(job)) is not None for job in jobs)
    return OperatorStatus(operator, versions, heartbeat, len(jobs) - ended, ended)
