"""Checks whether processes that share a pod's GPUs can exchange data through its memory."""

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
"""What containerd gives a pod without such a volume; tests/e2e/test_components.py measures it."""

_GPU = "gpu"
"""What the names of GPUs contain, of any vendor: nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915."""


def shared_memory(case: Case) -> Iterator[CheckResult]:
    """Say that pods with several GPUs have little shared memory: NCCL and data loaders end with a bus error there."""
    fix = f"mlpack configure {quote(argument(Path(case.source)))} --with shared-memory --set SHM_SIZE=8Gi"
    for demand in case.demands:
        if _gpus(demand) > 1 and not _has_volume(demand):
            message = f"each {demand.name} has {_gpus(demand)} GPUs and {_DEFAULT} in {_SHARED}"
            yield note("memory", f"{message}, which is too little for most data loaders and for NCCL", fix)


def _gpus(demand: Demand) -> int:
    """Return how many GPUs one of the pods has: no request of them may differ from the limit."""
    return sum(int(amount) for resource, amount in demand.limits.items() if "/" in resource and _GPU in resource)


def _has_volume(demand: Demand) -> bool:
    """Whether one of the pod's containers has a volume in the place of the runtime's shared memory."""
    mounts = [mount for one in listing(demand.spec.get("containers")) for mount in listing(one.get("volumeMounts"))]
    return any(mapping(mount).get("mountPath") == _SHARED for mount in mounts)
