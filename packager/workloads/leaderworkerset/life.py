"""LeaderWorkerSet in a cluster: groups of pods that serve, created by its controller (leaderworkerset.x-k8s.io/v1).

The controller makes a StatefulSet of the leaders, and, for each leader, one of its workers, which the leader's pod
owns. A group is ready when its leader and its workers are (v0.10.0, pkg/controllers/leaderworkerset_controller.go).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.kubernetes.kubectl.refusals import refusal
from packager.kubernetes.objects import (
    is_being_deleted,
    labels,
    name,
    sentence,
    shown,
    status,
    true_condition,
)
from packager.kubernetes.verdict import Finding
from packager.workloads.kinds import Operator, Role, ServingWorkload, is_seen, unready
from packager.workloads.pods import number_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


_UNMADE = "FailedCreate"

NAME = "leaderworkerset.sigs.k8s.io/name"
"""The label with the name of the set, of its StatefulSets and pods."""

GROUP = "leaderworkerset.sigs.k8s.io/group-index"
"""The label with the index of the group, of its pods and of the StatefulSet of its workers."""

WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
"""The label with the index of a pod in its group; that of the leader is 0."""

REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
"""The label with the revision of the templates; that of the leaders' StatefulSet has the newest."""


# The manifest is what `kustomize build config/default` makes of the tag v0.10.0, with the image of the release, to the
# byte with every kubectl from 1.30 on. The controller makes the certificate of its webhooks itself
# (internalCertManagement). The name of its lease is in api/config/v1alpha1/defaults.go there; how long it holds is
# controller-runtime's.
LWS = Operator(
    short="lws",
    name="LeaderWorkerSet",
    deployment="lws-controller-manager",
    lease="b8b2488c.x-k8s.io",
    lease_seconds=15,
    version="v0.10.0",
    url="https://github.com/kubernetes-sigs/lws/releases/download/v0.10.0/manifests.yaml",
    sha256="ee18d9fe39339a14e3822a8614081f288f063fb2b836410915d4dbeba329fac8",
    kind="LeaderWorkerSet",
    crd="leaderworkersets.leaderworkerset.x-k8s.io",
    api="leaderworkerset.x-k8s.io/v1",
    edit_role=None,
    tested="v0.9.0",  # the newest that is also a Go module, which the test cluster is built from
)


class LeaderWorkerSet(ServingWorkload):
    """A workload of groups, each of a leader and workers."""

    name = "LeaderWorkerSet"
    resource = "leaderworkersets.leaderworkerset.x-k8s.io"
    name_label = NAME
    operator = LWS
    unit, ready_count = "groups", "readyReplicas"
    # The StatefulSet of the leaders, the leaders, and the StatefulSets of their workers.
    owned = ("statefulsets.apps", "pods", "statefulsets.apps")

    def role(self, name: str, pod: str) -> Role | None:
        """Return "main" for a leader, whose name ends with its group, and "worker" for a pod with one index more."""
        match = re.fullmatch(rf"{re.escape(name)}-[0-9]+(-[0-9]+)?", pod)
        return None if match is None else "worker" if match[1] else "main"

    def is_serving(self, snapshot: Snapshot) -> bool:
        """Whether all groups are of the newest templates and ready, and no others are left."""
        counts, groups = status(snapshot.workload), number_of_pods(snapshot.workload["spec"].get("replicas"))
        ready, updated = (counts.get(field, 0) for field in ("readyReplicas", "updatedReplicas"))
        is_available = true_condition(snapshot.workload, "Available") is not None
        return is_seen(snapshot.workload) and is_available and bool(ready == updated == groups)

    def is_superseded(self, pod: Object, snapshot: Snapshot) -> bool:
        """Whether the pod has earlier templates than the StatefulSet of the leaders."""
        newest = [labels(item).get(REVISION) for item in snapshot.children if name(item) == name(snapshot.workload)]
        return bool(newest) and labels(pod).get(REVISION) != newest[0]

    def is_rolling(self, workload: Object, updated: int) -> bool:  # noqa: ARG002 - its status says so
        """Whether the set is being updated."""
        return true_condition(workload, "UpdateInProgress") is not None

    def obstacles(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield a silent operator, refused objects, and the failed probes of pods."""
        yield from _unmade(snapshot)
        yield from unready(snapshot)

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the leader of the first group; one that is being deleted only when all are."""
        leaders = [pod for pod in pods if labels(pod).get(WORKER) == "0"]
        return min(leaders, key=lambda pod: (is_being_deleted(pod), _place(pod)), default=None)

    def workers(self, pods: Sequence[Object]) -> list[Object]:
        """Return the other pods, in the order of their groups."""
        main = self.main(pods)
        return sorted((pod for pod in pods if pod is not main), key=_place)


def _place(pod: Object) -> tuple[int, int]:
    """Return the index of a pod's group, and its own in that."""
    group, worker = (labels(pod).get(key, "") for key in (GROUP, WORKER))
    return int(group) if group.isdecimal() else 0, int(worker) if worker.isdecimal() else 0


def _unmade(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the refusals of the API server to create StatefulSets, Services or pods: a quota, Pod Security.

    A StatefulSet that was refused a pod tries again, and the event stays; so only one that lacks pods counts.
    """
    for item in (snapshot.workload, *snapshot.children):
        is_whole = item["kind"] == "StatefulSet" and status(item).get("replicas", 0) >= number_of_pods(
            item["spec"].get("replicas")
        )
        events = [] if is_whole else snapshot.about(item, _UNMADE)
        if item is snapshot.workload and snapshot.children:
            events = [event for event in events if _is_of_missing(event, snapshot)]
        if events:
            message = sentence(events[-1])
            yield refusal(shown(item), message) or Finding(_UNMADE, shown(item), message)


def _is_of_missing(event: Object, snapshot: Snapshot) -> bool:
    """Whether an event says why the StatefulSet of a leader's workers could not be created, and it is still missing."""
    match = re.search(r"worker statefulset for leader pod ([a-z0-9.-]+?):", str(event.get("message")))
    made = {name(item) for item in snapshot.children if item["kind"] == "StatefulSet"}
    return match is not None and match[1] not in made
