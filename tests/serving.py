"""A Deployment in the fake cluster, with its ReplicaSets and their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fake_cluster import item
from tests.life import SERVER

if TYPE_CHECKING:
    from packager.kubernetes.objects import Object
    from tests.life import Life

LABELS = {"app.kubernetes.io/instance": SERVER}


def manifest(replicas: int = 2) -> Object:
    """Return the manifest of the Deployment that replaces the MPIJob in the overlay."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "server", "image": "a:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    labels = {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/name": "hello-mpi"}
    made = item("Deployment", SERVER, metadata={"labels": labels}, spec=spec)
    del made["metadata"]["namespace"], made["metadata"]["uid"]
    return {**made, "apiVersion": "apps/v1"}


def replica_set(generation: str = "a", owner: str = f"Deployment-{SERVER}") -> Object:
    """Return a ReplicaSet of the Deployment, or of another `owner`."""
    return item("ReplicaSet", f"{SERVER}-{generation}", metadata={"ownerReferences": [{"uid": owner}]})


def replica(index: int, generation: str = "a", state: Object | None = None) -> Object:
    """Return a pod of a ReplicaSet; its container has the state `state`, by default running."""
    owner = {"uid": f"ReplicaSet-{SERVER}-{generation}"}
    metadata = {"ownerReferences": [owner], "labels": LABELS, "creationTimestamp": f"2026-11-21T00:00:0{index}Z"}
    phase = "Pending" if state else "Running"
    containers = [{"name": "server", "image": "a:1", "state": state or {"running": {}}, "restartCount": 0}]
    pod_status = {"phase": phase, "containerStatuses": containers}
    spec = {"containers": [{"name": "server", "image": "a:1"}]}
    return item("Pod", f"{SERVER}-{generation}-{index}", metadata=metadata, spec=spec, status=pod_status)


def report(life: Life, available: int, **more: Any) -> None:
    """Set the number of available replicas in the Deployment's status."""
    life.find("Deployment", SERVER)["status"] = {"updatedReplicas": 2, "availableReplicas": available, **more}
