"""kubectl get -> Snapshot: two or three calls for a workload with all that belongs to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.cluster.objects import created, owners, uid
from packager.cluster.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.client import Kubectl
    from packager.cluster.engines import Engine
    from packager.cluster.objects import Object


def observe(kubectl: Kubectl, engine: Engine, name: str, *, events: bool = True) -> Snapshot | None:
    """Return what the cluster knows of the workload `name`; None when it is not there.

    Raises:
        ClusterError: The cluster does not answer, refuses to, or does not know workloads of this kind.
    """
    found = kubectl.items(f"{engine.resource}/{name}", *engine.children(name))
    workload = next((item for item in found if item["kind"] == engine.kind), None)
    if workload is None:
        return None
    children = tuple(item for item in found if item["kind"] != engine.kind and uid(workload) in owners(item))
    selector = engine.selector(name)
    pods = [workload] if selector is None else kubectl.items("pods", f"--selector={selector}")
    ours = {uid(workload), *map(uid, children)}
    # The server's clock and ours may differ: nothing is ever younger than nothing.
    age = max(0.0, (datetime.now(UTC) - created(workload)).total_seconds())
    return Snapshot(
        workload,
        children,
        tuple(pod for pod in pods if selector is None or owners(pod) & ours),
        tuple(kubectl.items("events")) if events else (),
        age,
    )


def pods_of(engine: Engine, pods: Sequence[Object]) -> list[Object]:
    """Return the main pod and then the workers, as a person lists them."""
    main = engine.main(pods)
    return [*([main] if main else []), *engine.workers(pods)]
