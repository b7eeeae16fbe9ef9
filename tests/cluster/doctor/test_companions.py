"""Tests of doctor's checks of the objects beside a workload: an Ingress's class, an autoscaler's metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from packager.cluster.doctor.case import Case
from packager.cluster.doctor.companions import beside
from packager.cluster.doctor.demand import demands
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.manifest import Manifest
from packager.rendering.overlay import RenderedOverlay
from tests.fake_cluster import FakeCluster, item

if TYPE_CHECKING:
    from packager.cluster.manifests import Manifests

INGRESS = item("Ingress", "a", spec={"ingressClassName": "nginx"})


def results(cluster: FakeCluster, *objects: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Return the state, message and fix of each result of the check for objects that would be applied."""
    case = Case(
        "a",
        Kubectl(runner=cluster),
        "team",
        cast("Manifests", SimpleNamespace(objects=objects)),
        cast("Any", None),
        cast("Any", None),
        (),
        cast("Any", None),
    )
    return [(str(result.state), result.message, result.fix) for result in beside(case)]


def test_doctor_checks_that_the_server_has_the_fields_of_an_elastic_job() -> None:
    template = {"spec": {"backoffLimitPerIndex": 3}}
    jobset = item("JobSet", "a", spec={"replicatedJobs": [{"name": "node", "template": template}]})
    message = "jobset/a: the server has the fields of Jobs for the option elastic"
    assert results(FakeCluster(version=(34, 31)), jobset) == [("ok", message, None)]
    [(state, message, fix)] = results(FakeCluster(version=(34, 30)), jobset)
    assert (state, fix) == ("fails", "kubectl version")
    assert message.startswith("jobset/a needs Kubernetes 1.31 (the option elastic), and the server has v1.30")
    template["spec"] = {"backoffLimit": 0}
    assert results(FakeCluster(), jobset) == []


def test_doctor_checks_that_the_class_of_an_ingress_exists() -> None:
    message = "ingress/a refers to the IngressClass nginx, which does not exist"
    assert results(FakeCluster(), INGRESS) == [("fails", message, "kubectl get ingressclasses")]
    there = FakeCluster([item("IngressClass", "nginx")])
    assert results(there, INGRESS) == [("ok", "ingress/a: the IngressClass nginx exists", None)]


@pytest.mark.parametrize(
    ("kind", "group"), [("Pods", "custom.metrics.k8s.io"), ("External", "external.metrics.k8s.io")]
)
def test_doctor_checks_that_metrics_of_an_adapter_are_served(kind: str, group: str) -> None:
    autoscaler = item("HorizontalPodAutoscaler", "a", spec={"metrics": [{"type": kind}, {"type": "Object"}]})
    message = f"horizontalpodautoscaler/a needs {group}, which the cluster does not serve: install "
    adapter = "an adapter, such as prometheus-adapter or KEDA"
    fix = f"kubectl api-resources --api-group={group}"
    assert results(FakeCluster(), autoscaler) == [("fails", f"{message}{adapter}", fix)]
    served = FakeCluster(served={f"{group}/v1beta1": []})
    assert results(served, autoscaler) == [("ok", f"horizontalpodautoscaler/a: the cluster serves {group}", None)]


def test_demand_counts_the_minimum_pods_of_an_autoscaler() -> None:
    for target, count in [("a", 3), ("b", 1)]:
        template = {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}
        deployment = {**item("Deployment", "a", spec={"template": template}), "apiVersion": "apps/v1"}
        reference = {"kind": "Deployment", "name": target}
        autoscaler = item("HorizontalPodAutoscaler", "a", spec={"minReplicas": 3, "scaleTargetRef": reference})
        overlay = RenderedOverlay("serving", (Manifest(deployment), Manifest(autoscaler)), cast("Any", None))
        assert [demand.count for demand in demands(overlay)] == [count]


MISSING = "job/a refers to the WorkloadPriorityClass high, which does not exist"
QUEUE = {"kueue.x-k8s.io/queue-name": "gpus", "kueue.x-k8s.io/priority-class": "high"}
QUEUED = item("Job", "a", metadata={"labels": QUEUE})
KUEUE: dict[str, list[str]] = {"kueue.x-k8s.io/v1beta2": []}
LOCAL_QUEUE = item("LocalQueue", "gpus")
STOPPED = {"type": "Active", "status": "False", "message": "the ClusterQueue is stopped"}
HIGH = item("WorkloadPriorityClass", "high")


def test_doctor_checks_queue_and_priority_of_a_workload() -> None:
    for objects, messages in [
        ([], ["job/a refers to the LocalQueue gpus, which does not exist", MISSING]),
        ([LOCAL_QUEUE], ["job/a: the LocalQueue gpus exists", MISSING]),
        ([LOCAL_QUEUE, HIGH], ["job/a: the LocalQueue gpus exists"]),
        (
            [{**LOCAL_QUEUE, "status": {"conditions": [STOPPED]}}, HIGH],
            ["the LocalQueue gpus starts nothing: the ClusterQueue is stopped"],
        ),
    ]:
        assert [message for _, message, _ in results(FakeCluster(objects, served=KUEUE), QUEUED)] == messages


def test_doctor_reports_a_cluster_without_kueue() -> None:
    [(state, message, _)] = results(FakeCluster(), QUEUED)
    assert (state, message) == ("fails", "job/a needs Kueue, which the cluster does not have")


RACK = "topology.example.com/rack"
JOB_SET = item("JobSet", "a", metadata={"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}})
PLACED = item(
    "Job",
    "a",
    spec={"template": {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}}},
)


@pytest.mark.parametrize("workload", [JOB_SET, PLACED], ids=["exclusive", "queue"])
def test_doctor_checks_that_nodes_have_the_label_of_a_topology(workload: dict[str, Any]) -> None:
    name = f"{workload['kind'].lower()}/a"
    nodes = [item("Node", "n", metadata={"labels": {RACK: "r1"}})]
    assert results(FakeCluster(nodes), workload) == [("ok", f"{name}: nodes have the label {RACK}", None)]
    [(state, message, fix)] = results(FakeCluster(), workload)
    assert (state, message) == ("fails", f"{name} is placed by the label {RACK}, which no node has")
    assert fix == "kubectl get nodes --show-labels"


@pytest.mark.parametrize(
    ("gang", "group", "queue"),
    [
        ("volcano", "scheduling.volcano.sh", "default"),
        ("coscheduling", "scheduling.x-k8s.io", ""),
        ("kai", "scheduling.run.ai", "team-a"),
    ],
)
def test_doctor_checks_the_gang_scheduler_and_its_queue(gang: str, group: str, queue: str) -> None:
    labels = {"mlpack/gang": gang, **({"kai.scheduler/queue": queue} if gang == "kai" else {})}
    roles: dict[str, Any] = {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {}}}}}
    job = item("MPIJob", "a", metadata={"labels": labels}, spec=roles)
    pod_group = item("PodGroup", "a", metadata={"labels": {"mlpack/gang": gang}}, spec={"queue": queue})
    objects = [job, pod_group] if gang == "volcano" else [job]
    message = f"mpijob/a needs the scheduler of {group} (GANG={gang}), which the cluster does not have"
    assert results(FakeCluster(), *objects) == [("fails", message, f"kubectl api-resources --api-group={group}")]
    served: dict[str, list[str]] = {f"{group}/v1": []}
    found = ("ok", f"mpijob/a: the cluster serves {group}{f', and its Queue {queue}' if queue else ''}", None)
    assert results(FakeCluster([item("Queue", queue)] if queue else [], served=served), *objects) == [found]
    if queue:
        message = f"mpijob/a refers to the Queue {queue} of {group}, which does not exist"
        absent = ("fails", message, f"kubectl get queues.{group}")
        assert results(FakeCluster(served=served), *objects) == [absent]


DEVICES = {
    "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "gpus"}],
    "volumes": [{"name": "bucket", "csi": {"driver": "gcsfuse.csi.storage.gke.io"}}],
}
NETWORKS = {"annotations": {"k8s.v1.cni.cncf.io/networks": "roce,other/roce"}}
DEVICE_POD = item("Pod", "a", metadata=NETWORKS, spec=DEVICES)
NAMED = {
    "ResourceClaimTemplate gpus": "resourceclaimtemplates.resource.k8s.io",
    "network of Multus roce": "network-attachment-definitions.k8s.v1.cni.cncf.io",
    "CSI driver gcsfuse.csi.storage.gke.io": "csidrivers.storage.k8s.io",
}


def test_doctor_checks_templates_of_claims_networks_and_drivers() -> None:
    absent = results(FakeCluster(), DEVICE_POD)
    for named, resource in NAMED.items():
        message = f"pod/a refers to the {named}, which does not exist"
        assert ("fails", message, f"kubectl get {resource}") in absent
    unserved = "pod/a claims devices by DRA, and no driver of the cluster offers any"
    assert ("fails", unserved, "kubectl get resourceslices.resource.k8s.io") in absent
    groups = ("resource.k8s.io/v1", "k8s.v1.cni.cncf.io/v1", "storage.k8s.io/v1")
    made = [
        item("ResourceClaimTemplate", "gpus"),
        item("ResourceSlice", "node-1"),
        item("NetworkAttachmentDefinition", "roce"),
        item("CSIDriver", "gcsfuse.csi.storage.gke.io"),
    ]
    complete = FakeCluster(made, served={group: [] for group in groups})
    assert results(complete, DEVICE_POD) == [("ok", f"pod/a: the {named} exists", None) for named in NAMED]
