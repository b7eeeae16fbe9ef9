"""Deployment in a cluster: replicas that serve, created by Kubernetes itself (apps/v1).

It serves when the conditions of `kubectl rollout status` are met: its controller has seen the newest spec, all replicas
are of that spec, no older ones are left, and all are available (kubectl, pkg/polymorphichelpers/rollout_status.go).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.kubernetes.kubectl.refusals import refusal
from packager.kubernetes.objects import (
    annotation,
    condition,
    created,
    is_being_deleted,
    owners,
    sentence,
    shown,
    status,
    true_condition,
    uid,
)
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding
from packager.workloads.controllers import generated_prefix
from packager.workloads.kinds import Role, ServingWorkload, is_seen, unready

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

_REVISION = "deployment.kubernetes.io/revision"

_LATE = "ProgressDeadlineExceeded"

_UNMADE = "ReplicaSetCreateError"
"""The reason of a failure before the spec counts as seen (pkg/controller/deployment/sync.go, getNewReplicaSet)."""

_HASH_LENGTH = 10
"""Digits of the hash in a ReplicaSet's name, which is a number of 32 bits (pkg/controller, ComputeHash)."""


class Deployment(ServingWorkload):
    """A workload of identical replicas."""

    name = "Deployment"
    resource = "deployments.apps"
    unit, ready_count = "replicas", "availableReplicas"
    owned = ("replicasets.apps",)

    def selector(self, workload: Object) -> Mapping[str, str]:
        """Return the labels by which its ReplicaSets find their pods."""
        return dict(workload["spec"]["selector"].get("matchLabels") or {})

    def role(self, name: str, pod: str) -> Role | None:
        """Return "main" for a pod of the Deployment: behind its name are the ReplicaSet's hash and five characters."""
        longest = f"{name}-{'x' * _HASH_LENGTH}-"
        if generated_prefix(longest) != longest:
            return "main" if pod.startswith(generated_prefix(f"{name}-")) else None
        return "main" if re.fullmatch(f"{re.escape(name)}-[a-z0-9]{{1,{_HASH_LENGTH}}}-[a-z0-9]{{5}}", pod) else None

    def is_serving(self, snapshot: Snapshot) -> bool:
        """Whether all replicas are of the newest spec and available, and no others are left."""
        counts, replicas = status(snapshot.workload), int(snapshot.workload["spec"].get("replicas", 1))
        updated = counts.get("updatedReplicas", 0)
        is_whole = updated == counts.get("availableReplicas", 0) == replicas
        return is_seen(snapshot.workload) and is_whole and counts.get("replicas", updated) == updated

    def is_superseded(self, pod: Object, snapshot: Snapshot) -> bool:
        """Whether the pod belongs to an earlier rollout."""
        newest = _newest(snapshot)
        return newest is not None and uid(newest) not in owners(pod)

    def is_rolling(self, workload: Object, updated: int) -> bool:
        """Whether there are replicas of an earlier rollout."""
        return int(status(workload).get("replicas", updated)) > updated

    def obstacles(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the obstacles of the newest rollout, and a note if an earlier one still serves."""
        deployment = snapshot.workload
        if deployment["spec"].get("paused"):
            advice = Remedy.of(Action.RESUME_ROLLOUT, object=shown(deployment))
            yield Finding("Paused", shown(deployment), "its rollout is paused", advice)
        if (refused := _unmade(deployment)) is not None:
            yield _refusal(deployment, refused)
        if not is_seen(deployment):
            return
        progress = condition(deployment, "Progressing") or {}
        if progress.get("status") == "False" and progress.get("reason") == _LATE:
            seconds = deployment["spec"].get("progressDeadlineSeconds", 600)
            message = f"no pod of the newest rollout has become ready for {seconds} s, its progressDeadlineSeconds"
            yield Finding(_LATE, shown(deployment), message, final_after=0)
        if (failed := true_condition(deployment, "ReplicaFailure")) is not None:
            yield _refusal(deployment, failed)
        yield from unready(snapshot)
        yield from _earlier(snapshot)

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the newest pod, which is of the newest rollout; one that is being deleted only when all are."""
        return max(pods, key=lambda pod: (not is_being_deleted(pod), created(pod)), default=None)

    def workers(self, pods: Sequence[Object]) -> list[Object]:
        """Return the other pods, the newest first."""
        main = self.main(pods)
        return sorted((pod for pod in pods if pod is not main), key=created, reverse=True)


def _unmade(deployment: Object) -> Object | None:
    """Return the condition that the cluster has refused the newest ReplicaSet."""
    progress = condition(deployment, "Progressing") or {}
    return progress if (progress.get("status"), progress.get("reason")) == ("False", _UNMADE) else None


def _refusal(deployment: Object, refused: Object) -> Finding:
    """Return the refusal of the cluster to create objects for the controller, from the condition with its message."""
    message = sentence(refused)
    return refusal(shown(deployment), message) or Finding("FailedCreate", shown(deployment), message)


def _newest(snapshot: Snapshot) -> Object | None:
    """Return the ReplicaSet of the newest rollout; None if it does not exist, or the user may not see it."""
    return max(snapshot.children, key=lambda item: int(annotation(item, _REVISION) or 0), default=None)


def _is_ready(pod: Object) -> bool:
    return true_condition(pod, "Ready") is not None and not is_being_deleted(pod)


def _earlier(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a note on the pods of an earlier rollout that serve while the newest does not."""
    newest = _newest(snapshot)
    if newest is None:
        return
    earlier = [pod for pod in snapshot.pods if _is_ready(pod) and uid(newest) not in owners(pod)]
    if earlier:
        are = "pod of the earlier rollout serves" if len(earlier) == 1 else "pods of the earlier rollout serve"
        message = f"{len(earlier)} {are} until the new ones are ready"
        yield Finding("EarlierServes", shown(snapshot.workload), message, blocks=False)
