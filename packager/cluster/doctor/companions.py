"""Checks the needs of site options in a cluster: queues, racks, Ingress classes, metrics and newer fields of Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.shortening import shortened
from packager.cluster.doctor.case import fails, ok
from packager.cluster.doctor.software import lacks
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import annotation, condition, labels, sentence, shown
from packager.package.options import BY_NAME, ELASTIC
from packager.workloads import kueue, podgroups
from packager.workloads.jobset.elastic import replaces_pods
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.objects import Object

_OF_PODS = ("metrics.k8s.io", "metrics-server")

_ADAPTER = "an adapter, such as prometheus-adapter or KEDA"

_METRICS = {
    "Resource": _OF_PODS,
    "ContainerResource": _OF_PODS,
    "Pods": ("custom.metrics.k8s.io", _ADAPTER),
    "External": ("external.metrics.k8s.io", _ADAPTER),
}
"""The API group of each kind of metric of an autoscaler, and the program that serves it."""

_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"

_LONGEST = 300


def beside(case: Case) -> Iterator[CheckResult]:
    """Check that queues, racks and classes exist, and that the metrics of each autoscaler are served."""
    for item in case.manifests.objects:
        yield from _queue(case, item)
        yield from _topology(case, item)
        yield from _gang(case, item)
        yield from _elastic(case, item)
        yield from _devices(case, item)
        if item["kind"] == "Ingress" and (ingress_class := item["spec"].get("ingressClassName")):
            if case.kubectl.get(f"ingressclasses.networking.k8s.io/{ingress_class}"):
                yield ok("beside", f"{shown(item)}: the IngressClass {ingress_class} exists")
            else:
                message = f"{shown(item)} refers to the IngressClass {ingress_class}, which does not exist"
                yield fails("beside", message, "kubectl get ingressclasses")
        elif item["kind"] == "HorizontalPodAutoscaler":
            yield from _metrics(case, item)


def _metrics(case: Case, item: Object) -> Iterator[CheckResult]:
    """Check that the cluster serves the kinds of metrics by which an autoscaler decides."""
    kinds = [metric.get("type") for metric in listing(item["spec"].get("metrics"))]
    for group, source in dict.fromkeys(_METRICS[kind] for kind in kinds if kind in _METRICS):
        if case.versions(group):
            yield ok("beside", f"{shown(item)}: the cluster serves {group}")
        else:
            message = f"{shown(item)} needs {group}, which the cluster does not serve: install {source}"
            yield fails("beside", message, f"kubectl api-resources --api-group={group}")


def _queue(case: Case, item: Object) -> Iterator[CheckResult]:
    """Check that the queue of a workload exists and takes workloads, and that its priority class exists."""
    if (queue := kueue.of(item)) is None:
        return
    if not case.versions(kueue.GROUP):
        message = f"{shown(item)} needs Kueue, which the cluster does not have"
        yield fails("beside", message, f"kubectl api-resources --api-group={kueue.GROUP}")
        return
    show = f"kubectl get localqueues {case.namespace_flag}"
    local_queue = case.kubectl.get(f"localqueues.{kueue.GROUP}/{queue}")
    active = condition(local_queue or {}, "Active")
    if local_queue is None:
        yield fails("beside", f"{shown(item)} refers to the LocalQueue {queue}, which does not exist", show)
    elif active and active["status"] == "False":
        yield fails("beside", f"the LocalQueue {queue} starts nothing: {shortened(sentence(active), _LONGEST)}", show)
    else:
        yield ok("beside", f"{shown(item)}: the LocalQueue {queue} exists")
    priority = labels(item).get(kueue.PRIORITY)
    if priority and case.kubectl.get(f"workloadpriorityclasses.{kueue.GROUP}/{priority}") is None:
        message = f"{shown(item)} refers to the WorkloadPriorityClass {priority}, which does not exist"
        yield fails("beside", message, f"kubectl get workloadpriorityclasses.{kueue.GROUP}")


def _gang(case: Case, item: Object) -> Iterator[CheckResult]:
    """Check that the cluster has the gang scheduler of a workload, and the queue that it names."""
    gang = podgroups.gang(Manifest(item))
    if gang is None or not pods_of(Manifest(item)):
        return
    group = podgroups.GROUPS.get(gang, gang)
    if not case.versions(group):
        message = f"{shown(item)} needs the scheduler of {group} (GANG={gang}), which the cluster does not have"
        yield fails("beside", message, f"kubectl api-resources --api-group={group}")
        return
    queue = labels(item).get(podgroups.KAI_QUEUE)
    if gang == "volcano":
        groups = (other for other in case.manifests.objects if other["kind"] == "PodGroup")
        queue = next((other["spec"].get("queue") for other in groups), None)
    if queue and case.kubectl.get(f"queues.{group}/{queue}") is None:
        show = f"kubectl get queues.{group}"
        yield fails("beside", f"{shown(item)} refers to the Queue {queue} of {group}, which does not exist", show)
    else:
        yield ok("beside", f"{shown(item)}: the cluster serves {group}{f', and its Queue {queue}' if queue else ''}")


def _elastic(case: Case, item: Object) -> Iterator[CheckResult]:
    """Check that the server keeps the fields of Jobs by which one pod of several is made again."""
    if not replaces_pods(item):
        return
    since = str(BY_NAME[ELASTIC].since)
    if older := lacks(case, since):
        message = f"{shown(item)} needs Kubernetes {since} (the option {ELASTIC}), and the server has {older}"
        yield fails("beside", message, "kubectl version")
    else:
        yield ok("beside", f"{shown(item)}: the server has the fields of Jobs for the option {ELASTIC}")


_DEVICES = "resource.k8s.io"

_NETWORKS = "k8s.v1.cni.cncf.io"

_DRIVERS = "csidrivers.storage.k8s.io"


def _devices(case: Case, item: Object) -> Iterator[CheckResult]:
    """Check the templates of device claims, the networks of Multus, and the CSI drivers that pods name."""
    templates: dict[str, None] = {}
    networks: dict[str, None] = {}
    drivers: dict[str, None] = {}
    for pods in pods_of(Manifest(item)):
        claims = map(mapping, listing(pods.spec.get("resourceClaims")))
        templates |= dict.fromkeys(str(claim["resourceClaimTemplateName"]) for claim in claims if len(claim) > 1)
        named = mapping(pods.metadata.get("annotations")).get(f"{_NETWORKS}/networks")
        networks |= dict.fromkeys(str(named).split(",") if named else ())
        volumes = (mapping(volume.get("csi")).get("driver") for _, volume in pods.volumes())
        drivers |= dict.fromkeys(str(driver) for driver in volumes if driver)
    for name in templates:
        yield from _named(case, item, f"resourceclaimtemplates.{_DEVICES}", "ResourceClaimTemplate", name)
    if templates and not case.kubectl.items(f"resourceslices.{_DEVICES}"):
        message = f"{shown(item)} claims devices by DRA, and no driver of the cluster offers any"
        yield fails("beside", message, f"kubectl get resourceslices.{_DEVICES}")
    for name in networks:
        if "/" not in name:  # of another namespace, which the user may not see
            yield from _named(case, item, f"network-attachment-definitions.{_NETWORKS}", "network of Multus", name)
    for name in drivers:
        yield from _named(case, item, _DRIVERS, "CSI driver", name)


def _named(case: Case, item: Object, resource: str, kind: str, name: str) -> Iterator[CheckResult]:
    """Check that the cluster has the object `name` of a resource, if it has the resource at all."""
    group = resource.partition(".")[2]
    if not case.versions(group) or case.kubectl.get(f"{resource}/{name}") is None:
        yield fails(
            "beside", f"{shown(item)} refers to the {kind} {name}, which does not exist", f"kubectl get {resource}"
        )
    else:
        yield ok("beside", f"{shown(item)}: the {kind} {name} exists")


def _topology(case: Case, item: Object) -> Iterator[CheckResult]:
    """Check that nodes have the labels of the racks or blocks among which a workload has to be placed."""
    keys = [annotation(item, _EXCLUSIVE)]
    for pods in pods_of(Manifest(item)):
        annotations = mapping(pods.metadata.get("annotations"))
        keys += [annotations.get(f"{kueue.GROUP}/podset-{way}-topology") for way in ("required", "preferred")]
    for key in dict.fromkeys(filter(None, keys)):
        if case.kubectl.items("nodes", f"--selector={key}"):
            yield ok("beside", f"{shown(item)}: nodes have the label {key}")
        else:
            message = f"{shown(item)} is placed by the label {key}, which no node has"
            yield fails("beside", message, "kubectl get nodes --show-labels")
