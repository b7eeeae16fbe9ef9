"""RenderedOverlay: the manifests of an overlay, with pods and places in files. Tests: verify/test_manifests.py."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from packager.base.problems import Problem
from packager.base.values import Value
from packager.kubernetes.manifest import dotted, mapping
from packager.rendering.origins import find
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.sources import Sources
    from packager.workloads.pods import Pods


class RenderedOverlay(Value, frozen=True, dict=True):
    """One overlay, rendered."""

    name: str  # the name of the overlay's folder
    manifests: tuple[Manifest, ...]  # the rendered manifests, in kubectl's order
    sources: Sources  # the files that the overlay was rendered from
    claim: str | None = None  # the claim of the overlay `workspace`; None for other overlays

    @cached_property
    def pods(self) -> tuple[Pods, ...]:
        """The pods of all manifests: each pod template, and each Pod."""
        return tuple(pods for manifest in self.manifests for pods in structures.pods(manifest))

    @property
    def images(self) -> tuple[str, ...]:
        """The images of all containers, and those that are volumes, in order."""
        return tuple(sorted({*self.container_images, *self.volume_images}))

    @property
    def container_images(self) -> tuple[str, ...]:
        """The images of all containers, in order."""
        return _names(container.get("image") for pods in self.pods for _, container in pods.containers())

    @property
    def volume_images(self) -> tuple[str, ...]:
        """The images that are volumes, in order."""
        return _names(
            mapping(volume.get("image")).get("reference") for pods in self.pods for _, volume in pods.volumes()
        )

    def named(self, kind: str, name: object) -> Manifest | None:
        """Return the manifest of this kind and name; None if the overlay has none."""
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
        """Return a finding at the place where the value at `location` of `manifest` is written."""
        place = find(self.sources.origins, location, manifest.data, at_key=at_key) or self.sources.start
        step = dotted(location)
        return Problem(*place, f"{manifest}{': ' + step if step else ''}: {message}", hint)


def _names(images: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({image for image in images if isinstance(image, str) and image and " " not in image}))
