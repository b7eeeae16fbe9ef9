"""Reports the state of a deployed package, and the reasons for it; lists what is deployed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from packager.base.errors import ClusterError, DeniedError, NotServedError
from packager.base.values import Value, as_plain
from packager.cluster.logreader import ContainerLog, read_once
from packager.cluster.observe import absent, selector_flag
from packager.cluster.ownership import DEPLOYED_BY, DIGEST, MANAGED_BY, PACKAGE, VERSION, key, look_up
from packager.cluster.podwatch import LogKeeper
from packager.cluster.target import Target
from packager.diagnosis.curves.figure import number
from packager.diagnosis.curves.points import Curve, added, lines_of
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import (
    Object,
    annotation,
    condition,
    created,
    labels,
    name,
    owners,
    restarts,
    sentence,
    shown,
)
from packager.kubernetes.objects import status as status_of
from packager.kubernetes.pods import Container, containers, state
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Phase, Verdict
from packager.workloads.kinds import Role, kinds
from packager.workloads.structures import structures

__all__ = ["Status", "number", "status"]

_NOT_DEPLOYED = Verdict(Phase.ABSENT, "not found")


class PodStatus(Value, frozen=True):
    """A pod of the workload."""

    name: str  # the name of the pod
    role: Role  # the role of the pod in the workload, such as main or worker
    state: str  # the state in one or two words, as in `kubectl get pods`
    phase: str | None  # the phase in its status: Pending, Running, Succeeded, Failed or Unknown
    node: str | None  # the node of the pod; None before it is scheduled
    restarts: int  # the number of restarts of all its containers
    containers: tuple[Container, ...]  # the containers, init containers first


class Beside(Value, frozen=True, rename={"shown": "object"}):
    """An object beside a workload that serves: a Service, an Ingress, an autoscaler, a disruption budget."""

    shown: str  # the object's name for kubectl: `service/name`
    state: str  # the object's state, in a few words


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a workload at one moment."""

    workload: str  # the workload's name for kubectl, such as `mpijob/name`
    verdict: Verdict  # the phase, a summary, and the findings that explain it
    namespace: str | None = None  # the namespace of the workload; None if it does not exist
    digest: str | None = None  # the digest of the package that it was deployed from
    version: str | None = None  # of that package; None without one
    note: str | None = None  # a sentence if another package, build or person has deployed the workload; else None
    deployed_by: str | None = None  # the user who deployed the workload
    pods: tuple[PodStatus, ...] = ()  # the pods, the main one first
    unseen: str | None = None  # the reason why findings may be missing, if the user may not read some objects
    beside: tuple[Beside, ...] = ()  # the companion objects of a workload that serves, such as its Service
    curves: tuple[Curve, ...] | None = None  # the curves in its log; None if they were not read

    def as_json(self) -> dict[str, Any]:
        """Return the status for `-o json`."""
        return {
            "workload": self.workload,
            "namespace": self.namespace,
            "phase": str(self.verdict.phase),
            "summary": self.verdict.summary,
            "digest": self.digest,
            "version": self.version,
            "note": self.note,
            "deployedBy": self.deployed_by,
            "pods": as_plain(list(self.pods)),
            "findings": [finding.as_json() for finding in self.verdict.findings],
            "unseen": self.unseen,
            "beside": as_plain(list(self.beside)),
            "curves": None if self.curves is None else list(map(_curve_as_json, self.curves)),
        }


def as_json(statuses: Sequence[Status]) -> dict[str, Any]:
    """Return the statuses of an overlay's workloads for `-o json`: the main one, which contains the others."""
    main, *further = (status.as_json() for status in statuses)
    return {**main, "others": further} if further else main


def status(target: Target, *, with_curves: bool = False) -> Status:
    """Return the status of the workload."""
    # Only the logs show which pod has failed first; `deploy` reads them too.
    snapshot = LogKeeper(target.observe, target.kubectl, target.manifests.kind)(events=True)
    if snapshot is None:
        return Status(target.shown, absent(target.kubectl, _NOT_DEPLOYED))
    answer = status_from(target, snapshot, diagnose(target.manifests.kind, snapshot))
    return replace(answer, beside=_beside(target), curves=curves(target) if with_curves else None)


def status_from(target: Target, snapshot: Snapshot | None, verdict: Verdict) -> Status:
    """Return the status of a workload from its verdict and a snapshot, which is None for a missing workload."""
    if snapshot is None:
        return Status(target.shown, verdict)
    workload = snapshot.workload
    return Status(
        target.shown,
        verdict,
        workload["metadata"]["namespace"],
        annotation(workload, DIGEST),
        annotation(workload, VERSION),
        target.identity.remark(workload),
        annotation(workload, DEPLOYED_BY),
        pods(target, snapshot),
        snapshot.unseen,
    )


def pods(target: Target, snapshot: Snapshot) -> tuple[PodStatus, ...]:
    """Return the workload's pods, the main one first."""
    listed = target.manifests.kind.listed(snapshot.pods)
    main = target.manifests.kind.main(listed)
    return tuple(
        PodStatus(
            *(name(pod), "main" if pod is main else "worker", state(pod), status_of(pod).get("phase")),
            *(pod["spec"].get("nodeName"), restarts(pod), containers(pod)),
        )
        for pod in listed
    )


_MOST_PODS = 8
"""The maximum number of pods whose logs are read, the main one first."""


def curves(target: Target) -> tuple[Curve, ...]:
    """Return the curves in the logs of the workload's main containers; none while it does not exist."""
    snapshot = target.observe(events=False)
    result: dict[tuple[str, str], Curve] = {}
    for pod in target.manifests.kind.listed(snapshot.pods)[:_MOST_PODS] if snapshot else ():
        result = added(result, name(pod), lines_of(read_once(ContainerLog(target.kubectl, pod))))
    return tuple(result.values())


def _curve_as_json(curve: Curve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "pod": curve.pod,
        "points": [list(point) for point in curve.drawn],
        "last": list(curve.last) if curve.last else None,
        "lowest": curve.lowest,
        "highest": curve.highest,
        "count": curve.count,
    }


def _beside(target: Target) -> tuple[Beside, ...]:
    """Return the objects beside the main workload, in the order of the manifests; none if the user may not see them."""
    workload = target.manifests.workload
    kinds = structures()[workload["kind"]].companion_kinds
    objects = [item for item in target.manifests.objects if name(item) == name(workload)]
    sought = [item for item in objects if (item["apiVersion"], item["kind"]) in kinds]
    try:
        live = look_up(target.kubectl, sought)
    except DeniedError:
        return ()
    return tuple(Beside(shown(item), state_beside(live.get(key(item)))) for item in sought)


def state_beside(item: Object | None) -> str:
    """Return the state of an object beside a workload in a few words; `item` is None for a missing object."""
    if item is None:
        return "not found"
    entries = listing(mapping(status_of(item).get("loadBalancer")).get("ingress"))
    addresses = ", ".join(str(entry.get("ip") or entry.get("hostname")) for entry in entries)
    if item["kind"] == "Ingress" or mapping(item.get("spec")).get("type") == "LoadBalancer":
        return f"at {addresses}" if addresses else "no address yet"
    abilities = [condition(item, kind) or {} for kind in ("AbleToScale", "ScalingActive")]  # of an autoscaler
    troubles = [sentence(ability) for ability in abilities if ability.get("status") == "False"]
    return "; ".join(troubles) or str(status_of(item).get("phase") or "exists")  # the phase of a PodGroup


class Deployment(Value, frozen=True, rename="camel"):
    """One deployed workload."""

    package: str | None  # the name of its package
    namespace: str
    workload: str  # kind/name
    digest: str | None  # of its package; None if kubectl itself applied it
    version: str | None  # of that package
    deployed_by: str | None  # user@machine; None if kubectl itself applied it
    created: datetime  # by the server's clock
    ended: str | None  # succeeded or failed; None for a workload that has not ended

    def as_json(self) -> dict[str, Any]:
        """Return the fields for `-o json`."""
        return {**as_plain(self), "created": self.created.isoformat()}


def deployments(kubectl: Kubectl, *, everywhere: bool = False) -> tuple[tuple[Deployment, ...], dict[str, str]]:
    """Return the workloads of all packages, newest first, and the refusals of kinds that may not be listed."""
    where = ["--all-namespaces"] if everywhere else []
    items: list[Object] = []
    unseen: dict[str, ClusterError] = {}
    for kind in kinds().values():
        try:
            items += kubectl.items(kind.resource, selector_flag({MANAGED_BY: "mlpack"}), *where)
        except NotServedError:
            continue  # a cluster without the operator has none of its workloads
        except DeniedError as error:
            unseen[kind.resource] = error
    if unseen and not items:
        raise next(iter(unseen.values()))
    # Objects that a controller creates for a workload may have a workload's kind and labels, too.
    # Temporary pods have no label of a package.
    rows = [_deployment(item) for item in items if not owners(item) and PACKAGE in labels(item)]
    refusals = {resource: str(error) for resource, error in unseen.items()}
    return tuple(sorted(rows, key=lambda row: row.created, reverse=True)), refusals


def _deployment(item: Object) -> Deployment:
    kind = kinds()[item["kind"]]
    snapshot = Snapshot(item, pods=() if kind.selector(item) else (item,))
    verdict = diagnose(kind, snapshot) if kind.ending(snapshot) else None
    return Deployment(
        labels(item).get(PACKAGE),
        str(item["metadata"]["namespace"]),
        f"{item['kind'].lower()}/{name(item)}",
        annotation(item, DIGEST),
        annotation(item, VERSION),
        annotation(item, DEPLOYED_BY),
        created(item),
        str(verdict.phase) if verdict else None,
    )
