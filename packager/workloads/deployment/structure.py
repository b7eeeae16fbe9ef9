"""Manifests of a Deployment, its Service and its PodDisruptionBudget, and of what options add."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.problems import Fault, show
from packager.kubernetes.manifest import INT32, at, listing, mapping
from packager.workloads.pods import Pods, lasting_containers, number_of_pods
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_TEMPLATE: Location = ("spec", "template")

_DEFAULT_METRIC = {"resource": {"name": "cpu", "target": {"type": "Utilization"}}}
"""The metric of an autoscaler that names none (pkg/apis/autoscaling/v2/defaults.go)."""


class Deployment(Structure):
    """Pods of one template, which ReplicaSets make."""

    api = "apps/v1"
    ranges = MappingProxyType({"replicas": (0, INT32)})
    companion_kinds = (
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "Ingress"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    )

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods; the hash of their template distinguishes the pods of one rollout."""
        count = number_of_pods(manifest.spec.get("replicas"))
        yield Pods(manifest, _TEMPLATE, count=count, workload_label="pod-template-hash")

    def longest_name(self, manifest: Manifest) -> str:
        """Return the Service's name, which begins with a letter; names of pods are cut if they are too long."""
        return manifest.name

    def companion_faults(self, manifest: Manifest, companion: Manifest) -> Iterator[Fault]:
        """Yield why an autoscaler would have no effect."""
        if companion.kind == "HorizontalPodAutoscaler":
            if "replicas" in manifest.spec:
                message = f"{manifest} has replicas too, so that each apply undoes what it does"
                yield Fault(("spec", "scaleTargetRef"), message, "remove replicas there")
            yield from _unrequested(manifest, companion)


def _unrequested(manifest: Manifest, scaler: Manifest) -> Iterator[Fault]:
    """Yield metrics that are a share of a resource, for each container that does not request it.

    The controller needs the request of the pod, or of all containers that run as long as the pod (calculateRequests in
    pkg/controller/podautoscaler/replica_calculator.go).
    """
    pod = mapping(at(manifest.data, (*_TEMPLATE, "spec")))
    for index, metric in enumerate(listing(scaler.spec.get("metrics")) or [_DEFAULT_METRIC]):
        name = at(metric, ("resource", "name"))
        if not isinstance(name, str) or at(metric, ("resource", "target", "type")) != "Utilization":
            continue
        for container in () if name in _requested(pod) else lasting_containers(pod):
            if name not in _requested(container):
                hint = f"set requests.{name} in its manifest, or in the spec's `resources`"
                who = f"{manifest}: container {show(container.get('name'))}"
                yield Fault(("spec", "metrics", index), f"{who} requests no {name}, of which this is a share", hint)


def _requested(part: Mapping[str, Any]) -> set[str]:
    """Return the resources that a container or a pod requests: a limit is a request, too."""
    resources = mapping(part.get("resources"))
    return {*mapping(resources.get("requests")), *mapping(resources.get("limits"))}
