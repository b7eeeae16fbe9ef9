"""Kueue: puts a workload into a queue, and reads whether it is held there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at, listing, mapping
from packager.kubernetes.objects import labels
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from packager.kubernetes.objects import Object

LABEL = "kueue.x-k8s.io/queue-name"
"""The label of a workload with its LocalQueue."""

_GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate by which Kueue holds a Pod."""


def put(workload: Object, queue: str) -> None:
    """Put a workload into a queue, where it waits for Kueue, which holds a Pod by a gate that it adds itself."""
    workload["metadata"].setdefault("labels", {})[LABEL] = queue
    if location := structures()[workload["kind"]].suspend:
        parent = workload
        for step in location[:-1]:
            parent = parent.setdefault(str(step), {})
        parent[str(location[-1])] = True


def of(workload: Object) -> str | None:
    """Return the queue that a workload is in; None if it is in none."""
    return labels(workload).get(LABEL)


def is_held(workload: Object) -> bool:
    """Whether a workload of the cluster waits for Kueue."""
    if location := structures()[workload["kind"]].suspend:
        return at(workload, location) is True
    gates = listing(mapping(workload.get("spec")).get("schedulingGates"))
    return any(mapping(gate).get("name") == _GATE for gate in gates)
