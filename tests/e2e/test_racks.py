"""Tests of options on nodes with devices in racks, which exist in the API only: pods are placed, and run nowhere."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import KUEUE_API
from tests.e2e.faults import Faulty
from tests.e2e.test_jobset import SPEC
from tests.testbed.operators import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Site

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.alone,
    pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="its nodes are not ours to add to"),
]

LEVEL = "mlpack.test/rack"
"""The label with the rack of a node."""

GPU, RDMA = "nvidia.com/gpu", "rdma/ib"

_FAKE = "mlpack.test/fake"
"""The taint of the nodes, so that no other pod is placed on them."""

_HEARTBEAT = 10.0
"""Seconds between two renewals of their leases; a node is taken for lost after 50 (node-monitor-grace-period)."""

TOLERATES = f"{_FAKE}=true:NoSchedule"

DEVICES = "--with gpu --with rdma --with placement --site GPU_COUNT=8 --site RDMA_COUNT=8 --site RDMA_RESOURCE=rdma/ib"


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


@pytest.fixture
def site(new_site: Callable[[str], Site]) -> Site:
    """Return a namespace that allows IPC_LOCK, which RDMA needs."""
    return new_site("privileged")


@pytest.fixture
def nodes(site: Site) -> Iterator[list[str]]:
    """Create two nodes in the rack a and one in the rack b, and yield their names."""
    with racks(site, "a", "a", "b") as names:
        yield names


@pytest.fixture
def queue(site: Site, nodes: list[str]) -> Iterator[str]:
    """Create a queue of all GPUs of the nodes in racks, and yield its name."""
    site.run(f"kubectl label namespace {site.namespace} {QUEUES}=true")
    name = site.namespace
    amounts = {"cpu": "100", "memory": "1Ti", **dict.fromkeys((GPU, RDMA), str(8 * len(nodes)))}
    flavor = {
        "nodeLabels": {"mlpack.test/fake": "true"},
        "topologyName": name,
        "tolerations": [{"key": "mlpack.test/fake", "operator": "Exists"}],
    }
    quotas = [{"name": resource, "nominalQuota": quota} for resource, quota in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": name, "resources": quotas}]}
    levels = [{"nodeLabel": LEVEL}, {"nodeLabel": "kubernetes.io/hostname"}]
    specs: dict[str, dict[str, Any]] = {
        "Topology": {"levels": levels},
        "ResourceFlavor": flavor,
        "ClusterQueue": {"namespaceSelector": {}, "resourceGroups": [group]},
        "LocalQueue": {"clusterQueue": name},
    }
    objects = [
        {"apiVersion": KUEUE_API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, spec in specs.items()
    ]
    (site.folder / "queue.json").write_text("\n".join(map(json.dumps, objects)))
    site.run("kubectl apply -f queue.json")
    yield name
    site.run("kubectl delete --wait=false -f queue.json")


def package(site: Site, count: int, options: str) -> Faulty:
    """Build a JobSet of `count` pods, each with all devices of a node in a rack."""
    settings = f"--set overlays.nodes.roles.node.replicas={count}"
    built = Faulty(site, site.build(str(SPEC), settings, DEVICES, options), "nodes")
    site.run(f"mlpack configure {built.folder} --set TOLERATIONS={TOLERATES}")
    return built


def racks_of_pods(site: Site, count: int) -> list[str]:
    """Wait until `count` pods have a node, and return the rack of each."""
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"].get(LEVEL) for node in site.get("nodes")["items"]}

    def placed() -> list[str]:
        pods = [pod["spec"].get("nodeName") for pod in site.get("pods")["items"]]
        return [nodes[node] for node in pods] if len(pods) == count and all(pods) else []

    result = site.until(placed, f"{count} pods with a node", timeout=40)
    assert isinstance(result, list)
    return result


def in_one_rack(queue: str) -> str:
    return f"--with queue --site QUEUE={queue} --site QUEUE_PLACING=required --site QUEUE_TOPOLOGY={LEVEL}"


def apply(built: Faulty) -> None:
    built.site.run(f"kubectl apply -k {built.folder}/quickstart/k8s/mlops/nodes")


def test_kueue_places_all_pods_in_a_rack_and_deploy_reports_that_none_has_room(site: Site, queue: str) -> None:
    large = package(site, 3, in_one_rack(queue))
    deploy = large.run("deploy", "--timeout=15s")
    assert site.get("pods")["items"] == []
    full = f"the topology {queue} of the ClusterQueue {queue} allows to fit only 2 out of 3 pod(s)"
    assert full in deploy.err, deploy.err
    large.delete()
    apply(package(site, 2, f"{in_one_rack(queue)} --set name=fits"))
    assert racks_of_pods(site, 2) == ["a", "a"]


@pytest.mark.usefixtures("nodes")
def test_two_exclusive_jobsets_have_a_rack_each(site: Site) -> None:
    for name in ("first", "second"):
        built = package(site, 1, f"--set name={name} --with exclusive --site EXCLUSIVE_TOPOLOGY={LEVEL}")
        apply(built)
    assert sorted(racks_of_pods(site, 2)) == ["a", "b"]
