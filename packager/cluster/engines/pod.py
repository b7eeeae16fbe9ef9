"""Pod: one process, run by Kubernetes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cluster.engines.base import Engine
from packager.cluster.objects import is_going, status
from packager.cluster.verdict import Phase, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.objects import Object
    from packager.cluster.snapshot import Snapshot


class Pod(Engine):
    """A workload that is one pod."""

    kind = "Pod"
    resource = "pods"

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return what the pod's phase says."""
        phase = status(snapshot.workload).get("phase")
        if phase == "Succeeded":
            return Verdict(Phase.SUCCEEDED, "the pod has ended well")
        if phase == "Failed" and is_going(snapshot.workload):
            return Verdict(Phase.FAILED, "somebody has deleted it, which stopped it")
        if phase == "Failed":
            return Verdict(Phase.FAILED, "the pod has failed")
        return None

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the pod."""
        return pods[0] if pods else None

    def pod_template(self, workload: Object) -> Object:
        """Return the pod's own spec."""
        return dict(workload["spec"])
