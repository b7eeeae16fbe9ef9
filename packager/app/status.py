"""Reports the state of a deployed package and the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.app.curves import as_json as as_json_curves
from packager.app.curves import curves
from packager.cluster.companions import Beside, beside
from packager.cluster.kept_logs import LogKeeper
from packager.cluster.labels import DEPLOYED_BY, DIGEST
from packager.cluster.logs import with_log_end
from packager.cluster.observe import absent, released_pods
from packager.diagnosis.admitted import released
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.objects import annotation, name, restarts
from packager.kubernetes.objects import status as status_of
from packager.kubernetes.pods import Container, containers, state
from packager.kubernetes.verdict import Finding, Phase, Verdict, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.app.target import Target
    from packager.diagnosis.curves.points import Curve
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Role

_NOT_DEPLOYED = Verdict(Phase.ABSENT, "not found")


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod of the workload.

    Attributes:
        name: The name of the pod.
        role: The role of the pod in the workload, such as main or worker.
        state: The state in one or two words, as in `kubectl get pods`.
        phase: The phase in its status: Pending, Running, Succeeded, Failed or Unknown.
        node: The node of the pod; None before it is scheduled.
        restarts: The number of restarts of all its containers.
        containers: The containers, init containers first.
    """

    name: str
    role: Role
    state: str
    phase: str | None
    node: str | None
    restarts: int
    containers: tuple[Container, ...]

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
    """The state of a workload at one moment.

    Attributes:
        workload: The workload's name for kubectl, such as `mpijob/name`.
        verdict: The phase, a summary, and the findings that explain it.
        namespace: The namespace of the workload; None if it does not exist.
        digest: The digest of the package that it was deployed from.
        note: A sentence if another package, build or person has deployed the workload; else None.
        deployed_by: The user who deployed the workload.
        pods: The pods, the main one first.
        unseen: The reason why findings may be missing, if the user may not read some objects.
        beside: The companion objects of a workload that serves, such as its Service.
        curves: The curves in its log; None if they were not read.
    """

    workload: str
    verdict: Verdict
    namespace: str | None = None
    digest: str | None = None
    note: str | None = None
    deployed_by: str | None = None
    pods: tuple[PodStatus, ...] = ()
    unseen: str | None = None
    beside: tuple[Beside, ...] = ()
    curves: tuple[Curve, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the status for `-o json`."""
        return {
            "workload": self.workload,
            "namespace": self.namespace,
            "phase": str(self.verdict.phase),
            "summary": self.verdict.summary,
            "digest": self.digest,
            "note": self.note,
            "deployedBy": self.deployed_by,
            "pods": [pod.as_json() for pod in self.pods],
            "findings": [finding.as_json() for finding in self.verdict.findings],
            "unseen": self.unseen,
            "beside": [item.as_json() for item in self.beside],
            "curves": None if self.curves is None else as_json_curves(self.curves),
        }


def as_json(statuses: Sequence[Status]) -> dict[str, Any]:
    """Return the statuses of an overlay's workloads for `-o json`: the main one, which contains the others."""
    main, *further = (status.as_json() for status in statuses)
    return {**main, "others": further} if further else main


def status(target: Target, *, with_curves: bool = False) -> Status:
    """Return the status of the workload.

    Args:
        target: The opened overlay of the workload.
        with_curves: Whether to read the curves in its log.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    # Only the logs show which pod has failed first; `deploy` reads them too.
    snapshot = LogKeeper(target.observe, target.kubectl, target.manifests.kind)(events=True)
    if snapshot is None:
        verdict = absent(target.kubectl, _NOT_DEPLOYED)
        pods_left = released_pods(target.kubectl, target.manifests.kind, name(target.manifests.workload))
        return Status(target.shown, replace(verdict, findings=grouped(released(pods_left))))
    answer = status_from(target, snapshot, diagnose(target.manifests.kind, snapshot))
    drawn = curves(target) if with_curves else None
    return replace(answer, beside=beside(target.kubectl, target.manifests), curves=drawn)


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
