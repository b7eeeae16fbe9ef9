"""Reports the state of a deployed package, the reasons for it, and the curves in its log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.cluster.companions import Beside, beside
from packager.cluster.logreader import ContainerLog, read_once, with_log_end
from packager.cluster.observe import absent, released_pods
from packager.cluster.ownership import DEPLOYED_BY, DIGEST, VERSION
from packager.cluster.podwatch import LogKeeper
from packager.diagnosis.admitted import released
from packager.diagnosis.curves.figure import number
from packager.diagnosis.curves.points import added, lines_of
from packager.diagnosis.curves.terminal import drawn
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.objects import annotation, name, restarts
from packager.kubernetes.objects import status as status_of
from packager.kubernetes.pods import Container, containers, state
from packager.kubernetes.verdict import Finding, Phase, Verdict, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packager.cluster.target import Target
    from packager.diagnosis.curves.points import Curve
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Role


__all__ = ["Status", "drawn", "number", "status"]

_NOT_DEPLOYED = Verdict(Phase.ABSENT, "not found")


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod of the workload."""

    name: str  # the name of the pod
    role: Role  # the role of the pod in the workload, such as main or worker
    state: str  # the state in one or two words, as in `kubectl get pods`
    phase: str | None  # the phase in its status: Pending, Running, Succeeded, Failed or Unknown
    node: str | None  # the node of the pod; None before it is scheduled
    restarts: int  # the number of restarts of all its containers
    containers: tuple[Container, ...]  # the containers, init containers first

    def as_json(self) -> dict[str, Any]:
        """Return the pod for `-o json`."""
        return {
            "name": self.name,
            "role": self.role,
            "state": self.state,
            "phase": self.phase,
            "node": self.node,
            "restarts": self.restarts,
            "containers": [container.as_json() for container in self.containers],
        }


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
            "pods": [pod.as_json() for pod in self.pods],
            "findings": [finding.as_json() for finding in self.verdict.findings],
            "unseen": self.unseen,
            "beside": [item.as_json() for item in self.beside],
            "curves": None if self.curves is None else curves_as_json(self.curves),
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
        verdict = absent(target.kubectl, _NOT_DEPLOYED)
        pods_left = released_pods(target.kubectl, target.manifests.kind, name(target.manifests.workload))
        return Status(target.shown, replace(verdict, findings=grouped(released(pods_left))))
    answer = status_from(target, snapshot, diagnose(target.manifests.kind, snapshot))
    read = curves(target) if with_curves else None
    return replace(answer, beside=beside(target.kubectl, target.manifests), curves=read)


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
    return tuple(_pod(pod, "main" if pod is main else "worker") for pod in listed)


def with_logs(target: Target, finding: Finding) -> Finding:
    """Return the finding with the last lines of its container's log, if it lacks them and the log can be read."""
    return with_log_end(target.kubectl, finding)


def _pod(pod: Object, role: Role) -> PodStatus:
    node = pod["spec"].get("nodeName")
    return PodStatus(name(pod), role, state(pod), status_of(pod).get("phase"), node, restarts(pod), containers(pod))


MOST_PODS = 8
"""The maximum number of pods whose logs are read, the main one first."""


def curves(target: Target) -> tuple[Curve, ...]:
    """Return the curves in the logs of the workload's main containers; none while it does not exist."""
    snapshot = target.observe(events=False)
    pods = target.manifests.kind.listed(snapshot.pods)[:MOST_PODS] if snapshot else ()
    return curves_of((name(pod), read_once(ContainerLog(target.kubectl, pod))) for pod in pods)


def curves_of(logs: Iterable[tuple[str, Iterator[bytes]]]) -> tuple[Curve, ...]:
    """Return the curves in logs, each with the name of its pod."""
    result: dict[tuple[str, str], Curve] = {}
    for pod, log in logs:
        result = added(result, pod, lines_of(log))
    return tuple(result.values())


def curves_as_json(curves: Iterable[Curve]) -> list[dict[str, Any]]:
    """Return curves for `-o json`: name, pod, points, last point, lowest and highest value, number of points."""
    return [
        {
            "name": curve.name,
            "pod": curve.pod,
            "points": [list(point) for point in curve.drawn],
            "last": list(curve.last) if curve.last else None,
            "lowest": curve.lowest,
            "highest": curve.highest,
            "count": curve.count,
        }
        for curve in curves
    ]
