"""The manifest of a Sweep."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import integer
from packager.workloads.pods import Pods
from packager.workloads.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.manifest import Manifest


class Sweep(Structure):
    """Pods of one template, one a trial."""

    api = "example.com/v1"
    maker = "sweep-operator"
    ranges = MappingProxyType({"trials": (1, 100)})

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods."""
        yield Pods(manifest, ("spec", "template"), count=integer(manifest.spec.get("trials")) or 1)

    def longest_name(self, manifest: Manifest) -> str:
        """Return the name of the last trial's pod."""
        return f"{manifest.name}-trial-{(integer(manifest.spec.get('trials')) or 1) - 1}"

    def taken(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:
        """Return the objects that sweep-operator makes beside the pods."""
        return (("ConfigMap", f"{manifest.name}-best"),)
