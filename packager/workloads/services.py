"""Checks the Service of pods that serve, and what refers to it. Tests: workloads/deployment/test_structure.py."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes.manifest import at, listing, mapping
from packager.workloads.pods import lasting_containers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.workloads.pods import Pods

_INSTANCE = "app.kubernetes.io/instance"
"""The label that an overlay's pods have to themselves: those of the package's other overlays have its other labels."""

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def companion_faults(
    serving: Pods, companion: Manifest, added_labels: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Fault]:
    """Yield selectors of an object that do not select the pods that serve, and references to missing objects."""
    labels = {**mapping(serving.metadata.get("labels")), **added_labels}
    if companion.kind == "Service":
        yield from _selected(serving.manifest, labels, companion, ("spec", "selector"))
        yield from _targets(serving, companion)
    elif companion.kind == "PodDisruptionBudget":
        yield from _selected(serving.manifest, labels, companion, ("spec", "selector", "matchLabels"))
    elif companion.kind == "Ingress":
        yield from _backends(serving.manifest, companion)


def _ports(container: dict[str, Any]) -> list[str]:
    return [str(mapping(port).get("name")) for port in listing(container.get("ports"))]


def probes(location: Location, container: dict[str, Any]) -> Iterator[Fault]:
    """Yield ports of probes that the container does not name: such a probe fails each time."""
    names = _ports(container)
    for probe in _PROBES:
        for handler in ("httpGet", "tcpSocket"):
            port = at(container, (probe, handler, "port"))
            if isinstance(port, str) and port not in names:
                yield Fault((*location, probe, handler, "port"), f"port {port!r} not found", similar(port, names))


def _selected(
    workload: Manifest, labels: Mapping[str, Any], companion: Manifest, location: Location
) -> Iterator[Fault]:
    selector = mapping(at(companion.data, location))
    if not selector:
        yield Fault(location, f"expected labels of the pods of {workload}, found nothing")
    yield from too_many(selector, location)
    for key, value in selector.items():
        if labels.get(key) != value:
            message = f"selects other pods than those of {workload}"
            yield Fault((*location, key), message, f"there it is {show(labels.get(key))}")


def too_many(selector: dict[str, Any], location: Location) -> Iterator[Fault]:
    """Yield a fault if a selector also selects the pods of other overlays."""
    if selector and _INSTANCE not in selector:
        message = "selects the pods of other overlays, too"
        yield Fault(location, message, f"add the label {_INSTANCE}", needs=((*location, _INSTANCE),))


def _targets(serving: Pods, service: Manifest) -> Iterator[Fault]:
    names = [name for container in lasting_containers(serving.spec) for name in _ports(container)]
    for index, port in enumerate(listing(service.spec.get("ports"))):
        target = mapping(port).get("targetPort")
        if isinstance(target, str) and target not in names:
            location = ("spec", "ports", index, "targetPort")
            yield Fault(location, f"no pod has a port {target!r}", similar(target, names))


def _backends(manifest: Manifest, ingress: Manifest) -> Iterator[Fault]:
    for rule, entry in enumerate(listing(ingress.spec.get("rules"))):
        for index, path in enumerate(listing(at(entry, ("http", "paths")))):
            name = at(path, ("backend", "service", "name"))
            if name != manifest.name:
                location = ("spec", "rules", rule, "http", "paths", index, "backend", "service", "name")
                yield Fault(location, f"expected {manifest.name!r}, found {show(name)}")
