"""Structure: the base class for the manifests of a kind (`<kind>/structure.py`). Tests: verify/test_podspec.py."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes.manifest import at, listing, mapping, out_of_range, tree, values_at
from packager.workloads import podgroups
from packager.workloads.pods import lasting_containers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.workloads.pods import Pods


class Structure(ABC):
    """Reads the manifests of one kind."""

    api: ClassVar[str]
    """The apiVersion that builds write."""

    maker: ClassVar[str] = "Kubernetes"
    """The controller that makes the pods and the objects of `made_objects`."""

    companion_kinds: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The apiVersions and kinds of the objects that a build adds to the workload; each has the workload's name."""

    name_length: ClassVar[int] = 63
    """The characters that a workload's name may have: it becomes the value of a label, or a host's name."""

    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = MappingProxyType({})
    """The least and the most that numbers below the workload's `spec` may be, by their path; `*` is each of a list."""

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """The values that fields below the workload's `spec` may have, two or more, by their path as in `ranges`."""

    defaults: ClassVar[Mapping[str, object]] = MappingProxyType({})
    """The values that its CRD gives to fields which a manifest leaves out, by their dotted path."""

    suspend: ClassVar[Location] = ()
    """The field that suspends the workload, as a queue sets it; empty if the kind has none."""

    @property
    def schema(self) -> Path:
        """The schema of the kind's fields: a file in its folder, except for Kubernetes' own kinds (`tools.schemas`)."""
        return Path(str(sys.modules[type(self).__module__].__file__)).with_name("schema.json")

    def is_of(self, manifest: Manifest) -> bool:
        """Whether a manifest with the name of this kind is of its group, in whatever version."""
        is_version = manifest.api != "" and manifest.api.count("/") < 2
        return is_version and manifest.group == self.api.rpartition("/")[0]

    @abstractmethod
    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods of each template of a manifest of this kind, in its order."""

    def faults(self, manifest: Manifest) -> Iterator[Fault]:  # noqa: ARG002 - for those that have some
        """Yield values in a manifest of this kind that the cluster would refuse or misinterpret.

        The schema checks fields and types, and other checks of `verify` the pods themselves.
        """
        yield from ()

    def value_faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield each value of `ranges` and `choices` that the cluster would refuse."""
        for path, location, value in values_at(manifest.spec, tree((*self.ranges, *self.choices)), ("spec",)):
            if path in self.ranges:
                if message := out_of_range(value, self.ranges[path]):
                    yield Fault(location, message)
            elif value not in (accepted := self.choices[path]):
                expected = f"{', '.join(accepted[:-1])} or {accepted[-1]}"
                yield Fault(location, f"expected {expected}, found {show(value)}", similar(str(value), accepted))

    def reserved(self, manifest: Manifest, key: str) -> str | None:  # noqa: ARG002 - the same
        """Return why the environment variable `key` of its pods must not be set; None if it may be."""
        return None

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:  # noqa: ARG002 - the same
        """Return the environment variables that Kubernetes adds to its containers, beside what the manifest says."""
        return ()

    def longest_name(self, manifest: Manifest) -> str | None:  # noqa: ARG002 - the same
        """Return the longest name that a pod gets; None when nothing is put behind the workload's name."""
        return None

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - the same
        """Return the kinds and names of the objects that `maker` makes for the workload, beside its pods."""
        return ()

    def companion_faults(self, manifest: Manifest, companion: Manifest) -> Iterator[Fault]:
        """Yield each selector and reference of a companion object, such as a PodGroup, that does not match."""
        yield from podgroups.faults(self.pods(manifest), companion)

    def makes_object(self, manifest: Manifest, kind: str, name: str) -> bool:
        """Whether `maker` makes an object of this kind and name for the workload; its pods are among them."""
        return (kind, name) in self.made_objects(manifest)


_INSTANCE = "app.kubernetes.io/instance"
"""The label that an overlay's pods have to themselves: those of the package's other overlays have its other labels."""

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def selector_faults(
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
