"""Snapshot: the objects of one workload in the cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.objects import created, events_about

if TYPE_CHECKING:
    from datetime import datetime

    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class PodLog:
    """The last lines that a pod wrote, and the pod as it was when they were read."""

    pod: Object
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects of a workload at one moment.

    Attributes:
        workload: The object that a person deployed.
        children: What its controller has made of it, other than pods.
        pods: Its pods: those of an earlier workload of the same name are left out.
        events: Of its namespace.
        unseen: Why children or events are missing, when the user may not see them; None when they are not.
        age: Seconds since the workload was made.
        namespace: Its namespace; None when nothing asks for it, or the user may not see it.
        nodes: Those of its pods that seem not to answer, as far as the user may see them.
        logs: What pods wrote last, which may be gone by now.
    """

    workload: Object
    children: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = field(default=(), repr=False)
    age: float = 0
    unseen: str | None = None
    namespace: Object | None = None
    nodes: tuple[Object, ...] = ()
    logs: tuple[PodLog, ...] = field(default=(), repr=False)

    @property
    def now(self) -> datetime:
        """When it was taken, by the clock here."""
        return created(self.workload) + timedelta(seconds=self.age)

    def about(self, item: Object, reason: str) -> list[Object]:
        """Return the events of one reason about `item`, the oldest first."""
        return [event for event in events_about(self.events, item) if event.get("reason") == reason]

    def warnings(self, item: Object) -> list[Object]:
        """Return the warnings about `item`, the oldest first."""
        return [event for event in events_about(self.events, item) if event.get("type") == "Warning"]
