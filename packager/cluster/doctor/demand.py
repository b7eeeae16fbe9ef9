"""Adds up the resources that the pods of an overlay need. Tests: cli/test_doctor.py."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from packager.base.units import parse_quantity
from packager.kubernetes.manifest import integer, listing, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.rendering.overlay import RenderedOverlay

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


def demands(overlay: RenderedOverlay, specs: Sequence[Mapping[str, Any]]) -> tuple[Demand, ...]:
    """Return the needs of each group of pods of the overlay; `specs` are the PodSpecs with which they would run."""
    least: dict[tuple[Any, Any], int] = {}  # the pods that an autoscaler keeps
    for manifest in overlay.manifests:
        if manifest.kind == "HorizontalPodAutoscaler":
            reference = mapping(manifest.spec.get("scaleTargetRef"))
            scaled = reference.get("kind"), reference.get("name")
            least[scaled] = max(integer(manifest.spec.get("minReplicas")) or 1, least.get(scaled, 0))
    result = []
    for pods, spec in zip(overlay.pods, specs, strict=True):
        count = max(pods.count, least.get((pods.manifest.kind, pods.manifest.name), 0))
        result.append(Demand(pods.name, count, spec, of_pod(spec, "requests"), of_pod(spec, "limits")))
    return tuple(result)


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
    return {resource: parse_quantity(str(amount)) for resource, amount in amounts.items()}


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {key: one.get(key, Decimal(0)) + other.get(key, Decimal(0)) for key in {**one, **other}}


def _maximum(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, Decimal(0)), other.get(key, Decimal(0))) for key in {**one, **other}}
