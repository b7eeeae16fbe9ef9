"""Kueue: puts a workload into a queue, and finds whether Kueue holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import labels
from packager.workloads.structures import is_suspended, structures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.kubernetes.objects import Object

GROUP = "kueue.x-k8s.io"
"""The API group."""

PRIORITY = "kueue.x-k8s.io/priority-class"
"""The label with the WorkloadPriorityClass of a workload."""

LABEL = "kueue.x-k8s.io/queue-name"
"""The label with the LocalQueue of a workload."""

_GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate with which Kueue holds a Pod, or the pods of a workload that it cannot suspend."""


def put(workload: Object, queue: str) -> None:
    """Add the label of a queue to a workload, and suspend it; Kueue itself adds the gate that holds a Pod."""
    workload["metadata"].setdefault("labels", {})[LABEL] = queue
    if location := structures()[workload["kind"]].suspend:
        parent = workload
        for step in location[:-1]:
            parent = parent.setdefault(str(step), {})
        parent[str(location[-1])] = True


def of(workload: Object) -> str | None:
    """Return the queue of a workload; None without one."""
    return labels(workload).get(LABEL)


def is_held(workload: Object, pods: Iterable[Object] = ()) -> bool:
    """Whether Kueue holds a workload of the cluster, or some of its pods."""
    if structures()[workload["kind"]].suspend:
        return is_suspended(workload)
    gates = (gate for item in (workload, *pods) for gate in listing(mapping(item.get("spec")).get("schedulingGates")))
    return any(mapping(gate).get("name") == _GATE for gate in gates)
