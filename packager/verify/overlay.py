"""What the checks look at: an overlay's rendered manifests, the pods that they make, and where all of it is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from packager.problems import Problem
from packager.verify.origins import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.verify.sources import Sources
    from packager.yamlio import Location


@dataclass(frozen=True)
class Overlay:
    """One overlay, rendered.

    Attributes:
        name: The name of its folder.
        manifests: What kubectl made of it, in its order.
        sources: Where that is written.
    """

    name: str
    manifests: tuple[Manifest, ...]
    sources: Sources

    @cached_property
    def pods(self) -> tuple[Pods, ...]:
        """Every pod template, and every Pod."""
        return tuple(pods for manifest in self.manifests for pods in _pods(manifest))

    def named(self, kind: str, name: object) -> Manifest | None:
        """Return the manifest of this kind and name; None when the overlay has none."""
        return next((m for m in self.manifests if m.kind == kind and m.name == name), None)

    def names(self, kind: str) -> list[str]:
        """Return the names of all manifests of a kind."""
        return [manifest.name for manifest in self.manifests if manifest.kind == kind]

    def problem(
        self,
        manifest: Manifest,
        location: Location,
        message: str,
        hint: str | None = None,
        *,
        at_key: bool = False,
    ) -> Problem:
        """Return a finding that points at where the value at `location` of `manifest` is written."""
        place = find(self.sources.origins, location, manifest.data, at_key=at_key) or self.sources.start
        step = dotted(location)
        return Problem(*place, f"{manifest}{': ' + step if step else ''}: {message}", hint)


@dataclass(frozen=True)
class Manifest:
    """One rendered object."""

    data: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its kind; empty when it says none."""
        return str(self.data.get("kind") or "")

    @property
    def name(self) -> str:
        """Its name; empty when it has none."""
        return str(mapping(self.data.get("metadata")).get("name") or "")

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec; empty when it has none."""
        return mapping(self.data.get("spec"))

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip() or "a manifest"


@dataclass(frozen=True)
class Pods:
    """The pods of one template: a Pod itself, an MPIJob's workers.

    Attributes:
        manifest: What makes them.
        location: Where the Pod's or the template's `spec` and `metadata` stand in it.
        role: The replica's or replicated job's name in a custom resource; else empty.
    """

    manifest: Manifest
    location: Location
    role: str

    @property
    def spec(self) -> dict[str, Any]:
        """The PodSpec."""
        return mapping(at(self.manifest.data, (*self.location, "spec")))

    @property
    def metadata(self) -> dict[str, Any]:
        """The pod's metadata."""
        return mapping(at(self.manifest.data, (*self.location, "metadata")))

    def containers(self) -> Iterator[tuple[Location, dict[str, Any]]]:
        """Yield every container and where it stands, the init containers first."""
        for key in ("initContainers", "containers"):
            for index, container in enumerate(listing(self.spec.get(key))):
                yield (*self.location, "spec", key, index), mapping(container)

    def volumes(self) -> Iterator[tuple[Location, dict[str, Any]]]:
        """Yield every volume and where it stands."""
        for index, volume in enumerate(listing(self.spec.get("volumes"))):
            yield (*self.location, "spec", "volumes", index), mapping(volume)


def at(value: Any, location: Location) -> Any:
    """Return what stands at `location`; None when there is nothing."""
    for step in location:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def mapping(value: Any) -> dict[str, Any]:
    """Return `value`, or an empty mapping when it is none: `schema` has said so already."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """Return `value`, or an empty list when it is none."""
    return value if isinstance(value, list) else []


def integer(value: Any) -> int | None:
    """Return `value` when it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Any) -> str:
    """Return `value` when it is text, else nothing of it."""
    return value if isinstance(value, str) else ""


def dotted(location: Location) -> str:
    """Return a path as people write it: spec.containers[0].image."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")


_SPEC_TEMPLATE: Location = ("spec", "template")
_TEMPLATES: dict[str, Location] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(("Job", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), _SPEC_TEMPLATE),
}


def _pods(manifest: Manifest) -> Iterator[Pods]:
    if manifest.kind in _TEMPLATES:
        yield Pods(manifest, _TEMPLATES[manifest.kind], "")
    elif manifest.kind == "MPIJob":
        for role in mapping(manifest.spec.get("mpiReplicaSpecs")):
            yield Pods(manifest, ("spec", "mpiReplicaSpecs", role, "template"), role)
    elif manifest.kind == "JobSet":
        for index, job in enumerate(listing(manifest.spec.get("replicatedJobs"))):
            location = ("spec", "replicatedJobs", index, "template", "spec", "template")
            yield Pods(manifest, location, str(mapping(job).get("name")))
