"""Pod in a cluster: one process, run by Kubernetes itself. Tests: workloads/job/test_life.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.objects import status
from packager.kubernetes.verdict import Phase, Verdict
from packager.workloads.kinds import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


class Pod(Workload):
    """A workload that is one pod."""

    name = "Pod"
    resource = "pods"

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return the verdict from the pod's phase."""
        phase = status(snapshot.workload).get("phase")
        if phase == "Succeeded":
            return Verdict(Phase.SUCCEEDED, "the pod has succeeded")
        if phase == "Failed":
            return Verdict(Phase.FAILED, "the pod has failed")
        return None

    def attempts(self, snapshot: Snapshot) -> int | None:
        """Return 1 when a kubelet has begun with the pod, in which containers may be started again."""
        return 1 if status(snapshot.workload).get("startTime") else None

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the pod."""
        return pods[0] if pods else None
