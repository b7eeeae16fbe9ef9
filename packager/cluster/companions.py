"""Reads the state of the objects beside a serving workload: Services, Ingresses, autoscalers, disruption budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import DeniedError
from packager.cluster.ownership import key, look_up
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import condition, name, sentence, shown, status
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.manifests import Manifests
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class Beside:
    """An object beside a workload."""

    shown: str  # the object's name for kubectl: `service/name`
    state: str  # the object's state, in a few words

    def as_json(self) -> dict[str, Any]:
        """Return the object's name and state for `-o json`."""
        return {"object": self.shown, "state": self.state}


def beside(kubectl: Kubectl, manifests: Manifests) -> tuple[Beside, ...]:
    """Return the objects beside the main workload, in the order of the manifests; none if the user may not see them."""
    workload = manifests.workload
    kinds = structures()[workload["kind"]].companion_kinds
    sought = [
        item
        for item in manifests.objects
        if (item["apiVersion"], item["kind"]) in kinds and name(item) == name(workload)
    ]
    if not sought:
        return ()
    try:
        live = look_up(kubectl, sought)
    except DeniedError:
        return ()
    return tuple(Beside(shown(item), state(live.get(key(item)))) for item in sought)


def state(item: Object | None) -> str:
    """Return the state of an object in a few words; `item` is None for a missing object."""
    if item is None:
        return "not found"
    match item["kind"]:
        case "Service":
            return _service(item)
        case "Ingress":
            return _ingress(item)
        case "HorizontalPodAutoscaler":
            return _autoscaler(item)
        case "PodDisruptionBudget":
            count = status(item).get("disruptionsAllowed", 0)
            return f"{count} pod{'' if count == 1 else 's'} may be evicted now"
    phase = status(item).get("phase")  # of a PodGroup
    return f"{phase}" if phase else "exists"


def _service(service: Object) -> str:
    spec = service["spec"]
    kind = str(spec.get("type", "ClusterIP"))
    ports = []
    for port in listing(spec.get("ports")):
        text = f"{port.get('name', 'port')} {port.get('port')}"
        ports.append(f"{text}, {port['nodePort']} of each node" if port.get("nodePort") else text)
    text = f"{kind}: {'; '.join(ports)}"
    return f"{text}; {_addresses(service)}" if kind == "LoadBalancer" else text


def _ingress(ingress: Object) -> str:
    hosts = [str(rule.get("host", "any host")) for rule in listing(ingress["spec"].get("rules"))]
    ingress_class = ingress["spec"].get("ingressClassName", "by default")
    return f"{', '.join(hosts)}; class {ingress_class}; {_addresses(ingress)}"


def _addresses(item: Object) -> str:
    """Return the addresses at which a load balancer or a controller accepts requests for an object."""
    entries = listing(mapping(status(item).get("loadBalancer")).get("ingress"))
    addresses = [str(entry.get("ip") or entry.get("hostname")) for entry in entries]
    return f"at {', '.join(addresses)}" if addresses else "no address yet"


def _autoscaler(autoscaler: Object) -> str:
    spec, counts = autoscaler["spec"], status(autoscaler)
    limits = f"{spec.get('minReplicas', 1)} to {spec.get('maxReplicas')} pods"
    text = f"{limits}, {counts.get('desiredReplicas', 0)} are needed"
    return "; ".join([text, *_troubles(autoscaler)])


def _troubles(autoscaler: Object) -> Iterator[str]:
    """Yield the reasons for which an autoscaler does not scale."""
    for kind in ("AbleToScale", "ScalingActive"):
        ability = condition(autoscaler, kind) or {}
        if ability.get("status") == "False":
            yield sentence(ability)
