"""Manifest of a Job (batch/v1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.problems import Fault, show
from packager.kubernetes.manifest import INT32, at, integer, text
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.program import torchrun_faults
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_RESTARTS: Location = ("spec", "template", "spec", "restartPolicy")


class Job(Structure):
    """Pods of one template; a package's has one at a time."""

    api = "batch/v1"
    suspend = ("spec", "suspend")
    ranges = MappingProxyType(
        {
            "activeDeadlineSeconds": (1, None),
            "backoffLimit": (0, INT32),
            "ttlSecondsAfterFinished": (0, INT32),
            "parallelism": (1, INT32),
            "completions": (1, INT32),
        }
    )

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods; without a number of them, Kubernetes makes one at a time, and never more than are left."""
        count = number_of_pods(manifest.spec.get("parallelism"))
        completions = integer(manifest.spec.get("completions"))
        yield Pods(manifest, ("spec", "template"), count=count if completions is None else min(count, completions))

    def longest_name(self, manifest: Manifest) -> str | None:
        """Return the host name of an array's last pod, which the API server validates as a DNS label."""
        completions = integer(manifest.spec.get("completions")) or 0
        return f"{manifest.name}-{completions - 1}" if _is_array(manifest) and completions > 0 else None

    def setters_of(self, manifest: Manifest) -> tuple[str, ...]:
        """Return Kubernetes, which sets the index in an array, and torchrun where that starts the processes."""
        starts = (at(container, ("command", 0)) for pods in self.pods(manifest) for _, container in pods.containers())
        is_torchrun = any(text(start).rpartition("/")[2] == "torchrun" for start in starts)
        return (*(("index",) if _is_array(manifest) else ()), *(("torchrun",) if is_torchrun else ()))

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield numbers out of their range, a restart policy that loses the log, and wrong numbers of processes.

        With OnFailure the controller deletes the pod of the last attempt (kubernetes/kubernetes#74848). The API server
        refuses Always, its default (pkg/apis/batch/validation).
        """
        yield from super().faults(manifest)
        policy = at(manifest.data, _RESTARTS)
        if policy != "Never":
            value = "nothing, which means Always" if policy is None else show(policy)
            hint = "otherwise a failed pod is deleted, and its log with it, or the API server refuses the Job"
            yield Fault(_RESTARTS, f"expected Never, found {value}", hint)
        yield from (fault for pods in self.pods(manifest) for fault in torchrun_faults(pods))


def _is_array(manifest: Manifest) -> bool:
    return manifest.spec.get("completionMode") == "Indexed"
