"""Checks whether processes that share a pod's GPUs can exchange data through its memory. Tests: cli/test_doctor.py."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from packager.base.paths import argument
from packager.cluster.doctor.case import note
from packager.kubernetes.manifest import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.cluster.doctor.demand import Demand

_SHARED = "/dev/shm"  # noqa: S108 - a folder of pods
_DEFAULT = "64 MiB"
"""The shared memory of a pod without such a volume in containerd; tests/e2e/test_components.py measures it."""

_GPU = "gpu"
"""A part of the resource names of all vendors' GPUs: nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915."""


def shared_memory(case: Case) -> Iterator[CheckResult]:
    """Report pods with several GPUs and little shared memory, in which NCCL and data loaders end with a bus error."""
    fix = f"mlpack configure {quote(argument(Path(case.source)))} --with shared-memory --set SHM_SIZE=8Gi"
    for demand in case.demands:
        if _gpus(demand) > 1 and not _has_volume(demand):
            message = f"each {demand.name} has {_gpus(demand)} GPUs and {_DEFAULT} in {_SHARED}"
            yield note("memory", f"{message}, which is too little for most data loaders and for NCCL", fix)


def _gpus(demand: Demand) -> int:
    """Return the number of GPUs of each pod from its limits, which requests of GPUs must equal."""
    return sum(int(amount) for resource, amount in demand.limits.items() if "/" in resource and _GPU in resource)


def _has_volume(demand: Demand) -> bool:
    """Whether a container of the pod mounts a volume over the runtime's shared memory."""
    mounts = [mount for one in listing(demand.spec.get("containers")) for mount in listing(one.get("volumeMounts"))]
    return any(mapping(mount).get("mountPath") == _SHARED for mount in mounts)
