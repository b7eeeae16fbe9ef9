"""Adds up the resources and the nodes that the pods of an overlay need. Tests: cli/test_doctor.py."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from packager.base.quantity import parse
from packager.kubernetes.manifest import integer, listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods

Amounts = dict[str, Decimal]
"""Amounts of resources, by their names."""


@dataclass(frozen=True)
class Demand:
    """The needs of a group of identical pods."""

    name: str  # the name of the pods in messages
    count: int  # the number of pods
    spec: Mapping[str, Any]  # the PodSpec of the pods
    requests: Amounts  # the requests of each pod
    limits: Amounts  # the limits of each pod


def demands(overlay: RenderedOverlay, specs: Sequence[Mapping[str, Any]] = ()) -> tuple[Demand, ...]:
    """Return the needs of each group of pods of the overlay.

    Args:
        overlay: The overlay.
        specs: The PodSpec with which each group would run; the overlay's own if empty.
    """
    return tuple(
        Demand(
            pods.name, max(pods.count, _least(overlay, pods)), spec, of_pod(spec, "requests"), of_pod(spec, "limits")
        )
        for pods, spec in zip(overlay.pods, specs or [pods.spec for pods in overlay.pods], strict=True)
    )


def _least(overlay: RenderedOverlay, pods: Pods) -> int:
    """Return the smallest number of pods that an autoscaler keeps; 0 if the overlay has no autoscaler for them."""
    target = (pods.manifest.kind, pods.manifest.name)
    scalers = [manifest.spec for manifest in overlay.manifests if manifest.kind == "HorizontalPodAutoscaler"]
    references = [(mapping(spec.get("scaleTargetRef")), integer(spec.get("minReplicas"))) for spec in scalers]
    return max((least or 1 for reference, least in references if _named(reference) == target), default=0)


def _named(reference: Mapping[str, Any]) -> tuple[Any, Any]:
    return reference.get("kind"), reference.get("name")


def of_pod(spec: Mapping[str, Any], part: str) -> Amounts:
    """Return the requests or limits of a pod, as the scheduler counts them.

    Init containers run one after the other before the containers, so only the largest counts; those that keep running
    (sidecars) count with the containers. Source: Kubernetes, pkg/api/v1/resource/helpers.go.
    """
    concurrent: Amounts = {}
    largest: Amounts = {}
    for container in listing(spec.get("initContainers")):
        amounts = _amounts(container, part)
        if mapping(container).get("restartPolicy") == "Always":
            amounts = concurrent = _sum(concurrent, amounts)
        largest = _maximum(largest, amounts)
    for container in listing(spec.get("containers")):
        concurrent = _sum(concurrent, _amounts(container, part))
    return _maximum(concurrent, largest)


def total(demands: Iterable[Demand], part: str) -> Amounts:
    """Return the sum of the `requests` or `limits` (`part`) of all pods."""
    totals: Amounts = {}
    for demand in demands:
        amounts = demand.requests if part == "requests" else demand.limits
        totals = _sum(totals, {resource: demand.count * amount for resource, amount in amounts.items()})
    return totals


def shown(amount: Decimal) -> str:
    """Return a quantity for messages: 500m, 2, 1536Mi."""
    if amount != amount.to_integral_value():
        return f"{(amount * 1000).normalize():f}m"
    for suffix, power in (("Gi", 3), ("Mi", 2), ("Ki", 1)):
        size = Decimal(1024) ** power
        if amount >= size and amount >= 1 << 20:
            return f"{round(amount / size, 1).normalize():f}{suffix}"
    return f"{amount:f}"


def _amounts(container: Any, part: str) -> Amounts:
    resources = mapping(mapping(container).get("resources"))
    amounts = mapping(resources.get(part))
    if part == "requests":  # a limit without a request counts as both
        amounts = {**mapping(resources.get("limits")), **amounts}
    return {resource: parse(str(amount)) for resource, amount in amounts.items()}


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {key: one.get(key, Decimal(0)) + other.get(key, Decimal(0)) for key in {**one, **other}}


def _maximum(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, Decimal(0)), other.get(key, Decimal(0))) for key in {**one, **other}}
