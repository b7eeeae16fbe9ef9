"""Compares the accelerators of a manifest with those that the option `gpu` puts in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.shortening import shortened
from packager.kubernetes.manifest import at, mapping
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.manifest import Manifest

_LONGEST = 100


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs, or slices of them: NVIDIA's MIG, or the drivers of Intel's."""
    domain, _, name = resource.partition("/")
    return name == "gpu" or name.startswith("mig-") or domain == "gpu.intel.com"


def replaced(manifest: Manifest, overlay: str, resource: str, count: str) -> Iterator[str]:
    """Yield a note for each pod template that has another number of `resource`, or GPUs of another vendor.

    Args:
        manifest: A manifest of the overlay, before the option changes it.
        overlay: The name of the overlay.
        resource: The resource that the option sets, such as nvidia.com/gpu.
        count: The number that it sets.
    """
    for pods in structures.pods(manifest):
        limits = mapping(at(pods.spec, ("containers", 0, "resources", "limits"))) if pods.computes else {}
        for name, amount in limits.items():
            present = shortened(f"{name}: {amount}", _LONGEST)
            place = f"{overlay} ({shortened(pods.name, _LONGEST)})"
            if name == resource and str(amount) != count:
                yield f"gpu replaces {present} of {place} by {count}"
            elif name != resource and is_gpu(str(name)):
                yield f"gpu adds {resource}: {count} to {present} of {place}"
