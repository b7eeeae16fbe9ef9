"""Snapshot: all that the cluster knows of one workload in one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.cluster.objects import concerning

if TYPE_CHECKING:
    from packager.cluster.objects import Object


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was there.

    Attributes:
        workload: The object that a person deployed.
        children: What its controller has made of it, other than pods.
        pods: Its pods: those of an earlier workload of the same name are left out.
        events: Of its namespace.
        age: Seconds since the workload was made.
    """

    workload: Object
    children: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = field(default=(), repr=False)
    age: float = 0

    def warnings(self, item: Object) -> list[Object]:
        """Return the warnings about `item`, the oldest first."""
        return [event for event in concerning(self.events, item) if event.get("type") == "Warning"]
