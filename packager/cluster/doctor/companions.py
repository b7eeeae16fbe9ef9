"""Checks the needs of site options in a cluster: queues, racks, Ingress classes and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.shortening import shortened
from packager.cluster.doctor.case import fails, ok
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import annotation, condition, labels, sentence, shown
from packager.workloads import kueue, podgroups
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.objects import Object

_METRICS = "metrics.k8s.io"

_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"

_LONGEST = 300


def beside(case: Case) -> Iterator[CheckResult]:
    """Check that queues, racks and classes exist, and that the metrics of each autoscaler are served."""
    for item in case.manifests.objects:
        yield from _queue(case, item)
        yield from _topology(case, item)
        yield from _gang(case, item)
        if item["kind"] == "Ingress" and (ingress_class := item["spec"].get("ingressClassName")):
            if case.kubectl.get(f"ingressclasses.networking.k8s.io/{ingress_class}"):
                yield ok("beside", f"{shown(item)}: the IngressClass {ingress_class} exists")
            else:
                message = f"{shown(item)} refers to the IngressClass {ingress_class}, which does not exist"
                yield fails("beside", message, "kubectl get ingressclasses")
        elif item["kind"] == "HorizontalPodAutoscaler" and _needs_metrics(item):
            if case.versions(_METRICS):
                yield ok("beside", f"{shown(item)}: the cluster serves {_METRICS}")
            else:
                message = f"{shown(item)} needs {_METRICS}, which the cluster does not serve: install metrics-server"
                yield fails("beside", message, f"kubectl api-resources --api-group={_METRICS}")


def _needs_metrics(autoscaler: Object) -> bool:
    """Whether an autoscaler decides by the CPU or memory usage of pods."""
    return any(
        metric.get("type") in ("Resource", "ContainerResource") for metric in listing(autoscaler["spec"].get("metrics"))
    )


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
