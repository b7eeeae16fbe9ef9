"""Manifest of a Job (batch/v1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.problems import show
from packager.kubernetes.manifest import INT32, at, integer, text
from packager.workloads.indexed import BY_KUBERNETES, MAX_PARALLELISM, VARIABLE
from packager.workloads.launchers import by_torchrun, torchrun_faults
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_RESTARTS: Location = ("spec", "template", "spec", "restartPolicy")


class Job(Structure):
    """Pods of one template; a package's has one at a time."""

    api = "batch/v1"
    suspend = ("spec", "suspend")
    choices = MappingProxyType({"completionMode": ("Indexed", "NonIndexed")})
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

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the variable with the index, in an array."""
        return (VARIABLE,) if _is_array(manifest) else ()

    def reserved(self, manifest: Manifest, key: str) -> str | None:
        """Return torchrun's reason, where it starts the processes; and Kubernetes', in an array."""
        if key == VARIABLE and _is_array(manifest):
            return BY_KUBERNETES
        starts = (at(container, ("command", 0)) for pods in self.pods(manifest) for _, container in pods.containers())
        return by_torchrun(key) if any(text(start).rpartition("/")[2] == "torchrun" for start in starts) else None

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield errors in the restart policy and the number of attempts.

        The API server's default is Always, which it refuses for a Job (pkg/apis/batch/validation). With OnFailure the
        controller deletes the pod of the last attempt, and its log with it (kubernetes/kubernetes#74848).
        """
        policy = at(manifest.data, _RESTARTS)
        if policy == "OnFailure":
            hint = "with OnFailure the pod is deleted when its last attempt has failed, and its log with it"
            yield Fault(_RESTARTS, "expected Never, found 'OnFailure'", hint)
        elif policy in (None, "Always"):
            value = "nothing, which means Always" if policy is None else show(policy)
            yield Fault(_RESTARTS, f"expected Never, found {value}", "the API server refuses a Job that never ends")
        yield from _completions(manifest)
        yield from (fault for pods in self.pods(manifest) for fault in torchrun_faults(pods))


def _is_array(manifest: Manifest) -> bool:
    return manifest.spec.get("completionMode") == "Indexed"


def _completions(manifest: Manifest) -> Iterator[Fault]:
    """Yield values of an array that the API server refuses or interprets differently (pkg/apis/batch/validation)."""
    if not _is_array(manifest):
        return
    if manifest.spec.get("completions") is None:
        message = "the key 'completions' is missing: an Indexed Job has to say how many indexes it has"
        yield Fault(("spec", "completionMode"), message)
    if (integer(manifest.spec.get("parallelism")) or 0) > MAX_PARALLELISM:
        yield Fault(("spec", "parallelism"), f"expected at most {MAX_PARALLELISM:,} in an Indexed Job")
