"""Manifests of a Deployment, its Service and its PodDisruptionBudget, and of what options add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import show
from packager.kubernetes.manifest import INT32, at, integer, listing, mapping, out_of_range
from packager.workloads.pods import Pods, lasting_containers, number_of_pods
from packager.workloads.structure import Structure, probes, selector_faults, too_many

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_SELECTOR: Location = ("spec", "selector", "matchLabels")
_TEMPLATE: Location = ("spec", "template")
_ROLLING: Location = ("spec", "strategy", "rollingUpdate")
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")

_METRICS = {"Resource": "resource", "Pods": "pods", "External": "external"}
"""The types of an autoscaler's metrics that the table of allowed fields has, each with the field of its source."""

_DEFAULT_METRIC = {"resource": {"name": "cpu", "target": {"type": "Utilization"}}}
"""The metric of an autoscaler that names none (pkg/apis/autoscaling/v2/defaults.go)."""


class Deployment(Structure):
    """Pods of one template, which ReplicaSets make."""

    api = "apps/v1"
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

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield errors for the API server (pkg/apis/apps/validation), and probes that cannot be answered."""
        for field in _COUNTS:
            value = manifest.spec.get(field)
            if value is not None and (message := out_of_range(value, (0, INT32))):
                yield Fault(("spec", field), message)
        yield from _unselected(manifest)
        yield from _unable_to_roll(manifest)
        for field, expected in (("restartPolicy", ("Always",)), ("activeDeadlineSeconds", ())):
            location = (*_TEMPLATE, "spec", field)
            value = at(manifest.data, location)
            if value is not None and value not in expected:
                allowed = expected[0] if expected else "nothing"
                hint = "the pods of a Deployment run until they are deleted"
                yield Fault(location, f"expected {allowed}, found {show(value)}", hint)
        for pods in self.pods(manifest):
            for location, container in pods.containers():
                yield from probes(location, container)

    def companion_faults(self, manifest: Manifest, companion: Manifest) -> Iterator[Fault]:
        """Yield selectors that do not select the pods, and references to missing objects."""
        if companion.kind == "HorizontalPodAutoscaler":
            yield from _scaled(manifest, companion)
        for pods in self.pods(manifest):
            yield from selector_faults(pods, companion)


def _unselected(manifest: Manifest) -> Iterator[Fault]:
    selector = mapping(at(manifest.data, _SELECTOR))
    if not selector and not listing(at(manifest.data, ("spec", "selector", "matchExpressions"))):
        yield Fault(("spec", "selector"), "expected labels of its pods, found nothing")
    yield from too_many(selector, _SELECTOR)
    labels = mapping(at(manifest.data, (*_TEMPLATE, "metadata", "labels")))
    for key, value in selector.items():
        if key not in labels:
            message = f"its pods do not have the label {key}"
        elif labels[key] != value:
            message = f"its pods have the label {key} with {show(labels[key])}, not {show(value)}"
        else:
            continue
        yield Fault((*_SELECTOR, key), message, "selector and template must agree")


def _unable_to_roll(manifest: Manifest) -> Iterator[Fault]:
    least, most = (at(manifest.data, (*_ROLLING, field)) for field in ("maxUnavailable", "maxSurge"))
    if {str(least), str(most)} <= {"0", "0%"}:
        hint = "set maxSurge to 1: a new pod then comes before an old one goes"
        yield Fault(_ROLLING, "maxUnavailable and maxSurge are both 0, so no pod could ever be replaced", hint)
    deadline, ready = (manifest.spec.get(field) for field in ("progressDeadlineSeconds", "minReadySeconds"))
    if isinstance(deadline, int) and isinstance(ready, int) and deadline <= ready:
        message = f"expected more than minReadySeconds, {ready}, found {show(deadline)}"
        yield Fault(("spec", "progressDeadlineSeconds"), message)


def _scaled(manifest: Manifest, scaler: Manifest) -> Iterator[Fault]:
    target = mapping(scaler.spec.get("scaleTargetRef"))
    api, expected_api = target.get("apiVersion"), manifest.data.get("apiVersion")
    if api != expected_api:  # the controller looks the kind up in the group that is named here
        message = f"expected {expected_api}, that of {manifest}, found {show(api)}"
        yield Fault(("spec", "scaleTargetRef", "apiVersion"), message)
    if (target.get("kind"), target.get("name")) != (manifest.kind, manifest.name):
        message = f"expected {manifest}, found {target.get('kind')} {target.get('name')}"
        yield Fault(("spec", "scaleTargetRef"), message)
    least, most = (integer(scaler.spec.get(field)) for field in ("minReplicas", "maxReplicas"))
    if least is not None and most is not None and most < least:
        yield Fault(("spec", "maxReplicas"), f"expected {least}, the minReplicas, or more, found {most}")
    if "replicas" in manifest.spec:
        message = f"{manifest} has replicas too, so that each apply undoes what it does"
        yield Fault(("spec", "scaleTargetRef"), message, "remove replicas there")
    yield from _sources(scaler)
    yield from _unrequested(manifest, scaler)


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


def _sources(scaler: Manifest) -> Iterator[Fault]:
    """Yield metrics that do not have exactly the source of their type (pkg/apis/autoscaling/validation)."""
    for index, metric in enumerate(map(mapping, listing(scaler.spec.get("metrics")))):
        source = _METRICS.get(str(metric.get("type")))
        present = [key for key, value in metric.items() if key != "type" and value is not None]
        if source is not None and present != [source]:
            message = (
                f"a metric of the type {metric['type']} needs {source} alone, found {' and '.join(present) or 'none'}"
            )
            yield Fault(("spec", "metrics", index), message)
