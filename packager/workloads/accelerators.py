"""Compares the accelerators of a manifest with those that the options `gpu` and `device-claim` put in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.masking import shortened
from packager.kubernetes.manifest import at, mapping
from packager.kubernetes.resources import is_gpu_or_part
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.manifest import Manifest

_LONGEST = 100


def replaced(manifest: Manifest, overlay: str, resource: str, count: str) -> Iterator[str]:
    """Yield a note for each number of GPUs of a pod template that the option `gpu` or `device-claim` replaces.

    Args:
        manifest: A manifest of the overlay, before the option changes it.
        overlay: The name of the overlay.
        resource: The resource that the option `gpu` sets, such as nvidia.com/gpu; empty for `device-claim`.
        count: The number that it sets.
    """
    for pods in structures.pods(manifest):
        limits = mapping(at(pods.spec, ("containers", 0, "resources", "limits"))) if pods.computes else {}
        place = f"{overlay} ({shortened(pods.name, _LONGEST)})"
        for name, amount in limits.items():
            present = shortened(f"{name}: {amount}", _LONGEST)
            if not is_gpu_or_part(str(name)) and name != resource:
                continue
            if not resource:
                yield f"device-claim replaces {present} of {place}"
            elif name != resource:
                yield f"gpu replaces {present} of {place} by {resource}: {count}"
            elif str(amount) != count:
                yield f"gpu replaces {present} of {place} by {count}"
