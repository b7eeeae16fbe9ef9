"""Reports the state of a deployed package and the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.cluster.beside import Beside, beside
from packager.cluster.kept_logs import LogKeeper
from packager.cluster.labels import DEPLOYED_BY, DIGEST
from packager.cluster.logs import with_log_end
from packager.cluster.observe import absent
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.containers import Container, containers
from packager.kubernetes.objects import annotation, name, restarts
from packager.kubernetes.objects import status as status_of
from packager.kubernetes.pods import state
from packager.kubernetes.verdict import Finding, Phase, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.app.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Role

_NOT_DEPLOYED = Verdict(Phase.ABSENT, "not found")


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod of the workload.

    Attributes:
        name: Its name.
        role: What it does in the workload.
        state: What it is at, in a word or two, as `kubectl get pods` has it.
        phase: What its status calls that: Pending, Running, Succeeded, Failed or Unknown.
        node: Where it runs; None before it is known.
        restarts: How often its containers were started again, all in all.
        containers: Its containers, init containers first.
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
        workload: As kubectl takes it: `mpijob/name`.
        verdict: Its phase, in a few words, and the findings that explain it.
        namespace: Where it is; None when it is not there.
        digest: Of the build of the package that it was deployed from.
        note: In what it is another deployment than this package, this build and this person.
        deployed_by: Who deployed it.
        pods: The main one, then the workers.
        unseen: Why findings may be missing, when the user may not see all that there is.
        beside: The objects beside a workload that serves, such as its Service.
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
        }


def as_json(statuses: Sequence[Status]) -> dict[str, Any]:
    """Return the statuses of an overlay's workloads as one: that of the main one, with those of the others in it."""
    main, *others = (status.as_json() for status in statuses)
    return {**main, "others": others} if others else main


def status(target: Target) -> Status:
    """Return the status of the workload.

    Raises:
        ClusterError: The cluster cannot say.
    """
    # Which pod has failed first is in the logs, where `deploy` has read it too.
    snapshot = LogKeeper(target.observe, target.kubectl, target.manifests.kind)(events=True)
    if snapshot is None:
        return Status(target.shown, absent(target.kubectl, _NOT_DEPLOYED))
    answer = status_from(target, snapshot, diagnose(target.manifests.kind, snapshot))
    return replace(answer, beside=beside(target.kubectl, target.manifests))


def status_from(target: Target, snapshot: Snapshot | None, verdict: Verdict) -> Status:
    """Return the status of a workload from a snapshot and its verdict; None when it does not exist."""
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
    """Return the workload's pods: the main one, then the workers."""
    listed = target.manifests.kind.listed(snapshot.pods)
    main = target.manifests.kind.main(listed)
    return tuple(_pod(pod, "main" if pod is main else "worker") for pod in listed)


def with_logs(target: Target, finding: Finding) -> Finding:
    """Return the finding with the last lines of its container's log, when it has none and they can be read."""
    return with_log_end(target.kubectl, finding)


def _pod(pod: Object, role: Role) -> PodStatus:
    node = pod["spec"].get("nodeName")
    return PodStatus(name(pod), role, state(pod), status_of(pod).get("phase"), node, restarts(pod), containers(pod))
