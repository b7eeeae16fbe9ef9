"""Nodes that exist in the API only: real schedulers and Kueue place pods on them, and nothing runs there."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

LEVEL = "mlpack.test/rack"
"""The label with the rack of a node."""

GPU, RDMA = "nvidia.com/gpu", "rdma/ib"

_FAKE = "mlpack.test/fake"
"""The taint of the nodes, so that no other pod is placed on them."""

_HEARTBEAT = 10.0
"""Seconds between two renewals of their leases; a node is taken for lost after 50 (node-monitor-grace-period)."""

TOLERATES = f"{_FAKE}=true:NoSchedule"


def _node(name: str, rack: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {LEVEL: rack, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", _FAKE: "true"},
        },
        "spec": {"taints": [{"key": _FAKE, "value": "true", "effect": "NoSchedule"}]},
    }


def _status() -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8", RDMA: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}


def _lease(name: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    }


@contextmanager
def racks(site: Site, *of_nodes: str) -> Iterator[list[str]]:
    """Create a node with 8 GPUs and 8 RDMA devices in each of the given racks, and yield the nodes' names."""
    names = [f"{site.namespace}-{index}" for index in range(len(of_nodes))]
    site.apply(*map(_node, names, of_nodes))
    for name in names:
        site.run(f"kubectl patch node {name} --subresource=status --type=merge --patch='{json.dumps(_status())}'")
    ended = threading.Event()

    def renew() -> None:
        while True:
            text = "\n".join(json.dumps(_lease(name)) for name in names)
            site.shell(f"kubectl apply --server-side --force-conflicts -f - <<'END'\n{text}\nEND")
            if ended.wait(_HEARTBEAT):
                return

    heartbeat = threading.Thread(target=renew)
    heartbeat.start()
    try:
        # The node controller has not heard of a new node, and gives it this taint.
        taints = "kubectl get nodes --selector=mlpack.test/fake -o jsonpath='{.items[*].spec.taints[*].key}'"
        site.until(lambda: set(site.run(taints).split()) == {_FAKE}, "the nodes to be taken for ready")
        yield names
    finally:
        ended.set()
        heartbeat.join()
        # Nothing confirms that a pod there has ended.
        site.run("kubectl delete jobsets --all --wait=false")
        site.run("kubectl delete pods --all --force --grace-period=0 --wait=false")
        site.run(f"kubectl delete node {' '.join(names)}")
        site.run(f"kubectl delete lease --namespace=kube-node-lease --ignore-not-found {' '.join(names)}")
