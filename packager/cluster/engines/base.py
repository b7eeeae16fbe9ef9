"""Engine: what mlpack knows of one kind of workload, in one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from packager.cluster.objects import container_statuses, main_container

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.cluster.objects import Object
    from packager.cluster.snapshot import Snapshot
    from packager.cluster.verdict import Finding, Verdict


class Engine(ABC):
    """How a kind of workload is looked up, and how its own truth is read."""

    kind: ClassVar[str]
    resource: ClassVar[str]
    """As kubectl takes it, with its group, so that no other kind of the same name is meant."""

    operator: ClassVar[str | None] = None
    """Whose program has to run in the cluster; None when Kubernetes itself runs the workload."""

    has_workers: ClassVar[bool] = False
    """Whether pods compute under the main one, rather than the main one itself."""

    def children(self, name: str) -> tuple[str, ...]:  # noqa: ARG002 - for those that have some
        """Return `resource/name` of what the controller of workload `name` makes, other than pods."""
        return ()

    def makes(self, workload: Object) -> tuple[str, ...]:  # noqa: ARG002 - the same
        """Return `resource/name` of everything that is made for the workload under a name that can be foretold."""
        return ()

    def selector(self, name: str) -> str | None:  # noqa: ARG002 - the same
        """Return the labels of the workload's pods; None when the workload is itself the pod."""
        return None

    @abstractmethod
    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return how the workload has ended; None while it has not."""

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:  # noqa: ARG002 - the same
        """Yield what keeps the workload from going on, beyond what its pods say."""
        yield from ()

    def explain(self, failed: Finding, snapshot: Snapshot) -> Finding:  # noqa: ARG002 - the same
        """Return a pod's failure with what this kind of workload knows beyond the pod's own status."""
        return failed

    @abstractmethod
    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the pod that a person means who names none: the newest, when there were several."""

    def workers(self, pods: Sequence[Object]) -> list[Object]:  # noqa: ARG002 - the same
        """Return the pods that compute under the main one, in order of their index."""
        return []

    @abstractmethod
    def pod_template(self, workload: Object) -> Object:
        """Return the spec of the pods that compute: those in which OUTPUT_DIR is."""

    def is_running(self, pods: Sequence[Object]) -> bool:
        """Whether the main pod's main container runs, or has just ended and its controller has yet to say so."""
        pod = self.main(pods)
        if pod is None:
            return False
        wanted = main_container(pod)
        return any("waiting" not in each["state"] for each in container_statuses(pod) if each["name"] == wanted)
