"""Snapshot: the objects of one workload in the cluster at one moment. Tests: kubernetes/test_pods.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.objects import created, events_about

if TYPE_CHECKING:
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.queueing import Queueing


@dataclass(frozen=True, slots=True)
class PodLog:
    """The last lines that a pod wrote, and the pod as it was when they were read."""

    pod: Object
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects of a workload at one moment."""

    workload: Object  # the object that a person deployed
    children: tuple[Object, ...] = ()  # the objects that its controller has made, other than pods
    pods: tuple[Object, ...] = ()  # the pods of this workload, without those of an earlier one of the same name
    events: tuple[Object, ...] = field(default=(), repr=False)  # the events of the namespace
    age: float = 0  # seconds since the workload was made
    # the reason why children or events are missing, if the user may not see them; otherwise None
    unseen: str | None = None
    namespace: Object | None = None  # the namespace; None if no check needs it, or the user may not see it
    nodes: tuple[Object, ...] = ()  # the nodes of pods that seem not to answer, as far as the user may see them
    logs: tuple[PodLog, ...] = field(default=(), repr=False)  # the last lines of pods, some of which may be deleted
    strays: tuple[Object, ...] = ()  # some of the pods that controllers made for the workload, and do not find any more
    queueing: Queueing | None = None  # the objects of Kueue, if it holds the workload and the user may see them

    @property
    def now(self) -> datetime:
        """The time of the snapshot, by the clock of this machine."""
        return created(self.workload) + timedelta(seconds=self.age)

    def about(self, item: Object, reason: str) -> list[Object]:
        """Return the events of one reason about `item`, the oldest first."""
        return [event for event in events_about(self.events, item) if event.get("reason") == reason]

    def warnings(self, item: Object) -> list[Object]:
        """Return the warnings about `item`, the oldest first."""
        return [event for event in events_about(self.events, item) if event.get("type") == "Warning"]
