"""Manifest of a Job (batch/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at, integer, text
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.manifest import Manifest


class Job(Structure):
    """Pods of one template; a package's has one at a time."""

    api = "batch/v1"
    suspend = ("spec", "suspend")
    counts = ("parallelism", "completions", "activeDeadlineSeconds")

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods; without a number of them, Kubernetes makes one at a time, and never more than are left."""
        count = number_of_pods(manifest.spec.get("parallelism"))
        completions = integer(manifest.spec.get("completions"))
        yield Pods(manifest, ("spec", "template"), count=count if completions is None else min(count, completions))

    def setters_of(self, manifest: Manifest) -> tuple[str, ...]:
        """Return Kubernetes, which sets the index in an array, and torchrun where that starts the processes."""
        starts = (at(container, ("command", 0)) for pods in self.pods(manifest) for _, container in pods.containers())
        is_torchrun = any(text(start).rpartition("/")[2] == "torchrun" for start in starts)
        return (*(("index",) if _is_array(manifest) else ()), *(("torchrun",) if is_torchrun else ()))


def _is_array(manifest: Manifest) -> bool:
    return manifest.spec.get("completionMode") == "Indexed"
