"""What the pods of an overlay ask a cluster for: resources, and where they can run."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from packager.quantity import parse
from packager.verify.overlay import integer, listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.verify.overlay import Overlay, Pods

Amounts = dict[str, Decimal]
"""How much of each resource."""


@dataclass(frozen=True)
class Demand:
    """Pods that are all alike.

    Attributes:
        name: What a person calls them.
        count: How many there are.
        spec: Their PodSpec.
        requests: What each of them asks for.
        limits: What each of them may take.
    """

    name: str
    count: int
    spec: Mapping[str, Any]
    requests: Amounts
    limits: Amounts


def demands(overlay: Overlay) -> tuple[Demand, ...]:
    """Return what each kind of pod of the overlay asks for."""
    return tuple(
        Demand(
            pods.role.lower() or pods.manifest.kind.lower(),
            _count(pods),
            pods.spec,
            of_pod(pods.spec, "requests"),
            of_pod(pods.spec, "limits"),
        )
        for pods in overlay.pods
    )


def of_pod(spec: Mapping[str, Any], part: str) -> Amounts:
    """Return the requests or limits of a pod, as the scheduler counts them.

    Init containers run one after the other before the rest, so that only the largest counts; those that keep running
    (sidecars) count with the rest. From Kubernetes, pkg/api/v1/resource/helpers.go.
    """
    together: Amounts = {}
    largest: Amounts = {}
    for container in listing(spec.get("initContainers")):
        amounts = _amounts(container, part)
        if mapping(container).get("restartPolicy") == "Always":
            amounts = together = _sum(together, amounts)
        largest = _most(largest, amounts)
    for container in listing(spec.get("containers")):
        together = _sum(together, _amounts(container, part))
    return _most(together, largest)


def total(found: Iterable[Demand], part: str) -> Amounts:
    """Return what all pods ask for together; `part` is `requests` or `limits`."""
    together: Amounts = {}
    for demand in found:
        each = demand.requests if part == "requests" else demand.limits
        together = _sum(together, {resource: demand.count * amount for resource, amount in each.items()})
    return together


def shown(amount: Decimal) -> str:
    """Return a quantity for a person: 500m, 2, 1536Mi."""
    if amount != amount.to_integral_value():
        return f"{(amount * 1000).normalize():f}m"
    for suffix, power in (("Gi", 3), ("Mi", 2), ("Ki", 1)):
        size = Decimal(1024) ** power
        if amount >= size and amount >= 1 << 20:
            return f"{round(amount / size, 1).normalize():f}{suffix}"
    return f"{amount:f}"


def _amounts(container: Any, part: str) -> Amounts:
    resources = mapping(mapping(container).get("resources"))
    found = mapping(resources.get(part))
    if part == "requests":  # a limit without a request is both
        found = {**mapping(resources.get("limits")), **found}
    return {resource: parse(str(amount)) for resource, amount in found.items()}


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {key: one.get(key, Decimal(0)) + other.get(key, Decimal(0)) for key in {**one, **other}}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, Decimal(0)), other.get(key, Decimal(0))) for key in {**one, **other}}


def _count(pods: Pods) -> int:
    """Return how many pods a template makes."""
    spec = pods.manifest.spec
    if pods.manifest.kind == "MPIJob":
        replica = mapping(mapping(spec.get("mpiReplicaSpecs")).get(pods.role))
        return integer(replica.get("replicas", 1)) or 0
    if pods.manifest.kind == "JobSet":
        for job in listing(spec.get("replicatedJobs")):
            if mapping(job).get("name") == pods.role:
                template = mapping(mapping(job.get("template")).get("spec"))
                return (integer(job.get("replicas", 1)) or 0) * (integer(template.get("parallelism", 1)) or 0)
    for key in ("parallelism", "replicas"):
        if key in spec:
            return integer(spec[key]) or 0
    return 1
