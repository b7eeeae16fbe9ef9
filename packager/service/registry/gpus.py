"""Counts the GPUs that the pods of a job use, by the resource names of device plugins.

The names are those of the device plugins of NVIDIA (also for MIG and shared GPUs), AMD, Intel, Habana, Google, AWS,
Huawei, Iluvatar, Cambricon, MetaX and Moore Threads.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.cluster.doctor import demand
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from packager.kubernetes.objects import Object

_GPUS = re.compile(
    r"(nvidia\.com/(gpu|mig-[a-z0-9.+-]+)(\.shared)?|amd\.com/(gpu|[scdq]px_nps[0-9])"
    r"|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron(core|device)?"
    r"|huawei\.com/Ascend[0-9A-Z]+|iluvatar\.(ai|com)/gpu|cambricon\.com/mlu|metax-tech\.com/gpu|mthreads\.com/gpu)"
)
"""Resources whose unit is a GPU, or an exclusive part of one."""

_OTHERS = re.compile(
    r"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|rdma/[a-z0-9_.-]+|vpc\.amazonaws\.com/efa"
    r"|networking\.gke\.io\.networks/[a-z0-9.-]+"
)
"""Resources that are not GPUs: those of Kubernetes itself, and network cards."""

_MOST = 2**31 - 1
"""The maximum count in the database."""


class Gpus(Value, frozen=True):
    """The GPUs that a job uses."""

    count: int  # the number of GPUs of all pods; a part of a GPU, such as a MIG device, counts as one
    uncounted: tuple[str, ...]  # the other resources and the device claims, which may be GPUs and cannot be counted


def count_gpus(items: Iterable[Object], others: Collection[str] = ()) -> Gpus:
    """Return the GPUs that the pods of objects use."""
    count = 0
    uncounted: list[str] = []
    for item in items:
        for pods in structures.pods(Manifest(item)):
            amounts = demand.of_pod(pods.spec, "requests")
            limits = demand.of_pod(pods.spec, "limits")
            for resource in dict.fromkeys((*amounts, *limits)):
                if _GPUS.fullmatch(resource):
                    most = max(amounts.get(resource, 0), limits.get(resource, 0))
                    count += pods.count * max(math.ceil(most), 0)
                elif resource not in others and not _OTHERS.fullmatch(resource):
                    uncounted.append(resource)
            uncounted += _claims(pods.spec)
    return Gpus(min(count, _MOST), tuple(dict.fromkeys(uncounted)))


def _claims(spec: Object) -> Iterator[str]:
    """Yield each device claim of a pod (dynamic resource allocation), whose device class decides the devices."""
    for entry in listing(spec.get("resourceClaims")):
        yield f"the resource claim {mapping(entry).get('name')}"
