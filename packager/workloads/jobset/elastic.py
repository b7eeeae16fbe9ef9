"""Reads from a JobSet with how few nodes it works, where the option elastic lets nodes leave and come back. Pure.

Its Job then makes a pod that is gone again by itself (backoffLimitPerIndex), and torchrun starts the processes of all
nodes again (https://docs.pytorch.org/docs/stable/elastic/run.html). The Job is complete when node 0 has succeeded:
it has the store by which the nodes find each other, and another one may just have come back to find no work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.kubernetes.manifest import at, listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.objects import Object

LEAST = "ELASTIC_MIN"
"""The variable with the number of nodes with which torchrun works at least."""


def replaces_pods(jobset: Object) -> bool:
    """Whether the Jobs of a JobSet make single pods again."""
    return any(at(job, ("backoffLimitPerIndex",)) is not None for job in _jobs(jobset))


def least(jobset: Object) -> int | None:
    """Return the number of nodes with which a JobSet works at least; None if it needs all of them."""
    for job in _jobs(jobset):
        for variable in listing(at(job, ("template", "spec", "containers", 0, "env"))):
            value = text(mapping(variable).get("value"))
            if mapping(variable).get("name") == LEAST and value.isdecimal():
                return int(value)
    return None


def _jobs(jobset: Object) -> Iterator[dict[str, Any]]:
    """Yield the specs of the Jobs that JobSet makes."""
    for entry in listing(at(jobset, ("spec", "replicatedJobs"))):
        yield mapping(at(entry, ("template", "spec")))
