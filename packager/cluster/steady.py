"""Reads a running workload again only after a watch has reported a change of its pods, or in every tenth poll.

A poll starts two or three kubectls. Each needs a tenth of a second of a processor and sends a request or more. A watch
is one kubectl for the whole run, which reports a change of a pod within milliseconds. Changes of other objects, such as
the workload's conditions, may be read up to nine polls late: `follow` asks for events in every tenth poll.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.cluster.observe import pods_of
from packager.kubernetes.objects import created

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from packager.cluster.follow import SnapshotReader
    from packager.cluster.podwatch import PodWatch
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Workload


class SteadyReader:
    """Takes snapshots, and returns the last one again, with its new age, while no pod has changed.

    This is so in polls that need no events, since the main pod runs. Without a working watch, each takes a snapshot.

    Args:
        read: The function that takes a snapshot.
        kind: The workload's kind.
        watch: Watches the workload's pods from the first snapshot of a running workload on.
        now: Returns the time of day, in UTC.
    """

    def __init__(self, read: SnapshotReader, kind: Workload, watch: PodWatch, now: Callable[[], datetime]) -> None:
        self._read = read
        self._kind = kind
        self._watch = watch
        self._now = now
        self._last: Snapshot | None = None
        self._changes: int | None = None

    def __call__(self, *, events: bool) -> Snapshot | None:
        """Return a snapshot, or the last one with its new age. Raises the errors of `read`."""
        changes = self._watch.changes  # before the snapshot, so that a change during it is not missed
        last, self._last = self._last, None
        if last is not None and not events and changes is not None and changes == self._changes:
            age = (self._now() - created(last.workload)).total_seconds()
            self._last = replace(last, age=max(0.0, age))
            return self._last
        snapshot = self._read(events=events)
        if snapshot is not None and not events:
            self._watch.begin(pods_of(self._kind, snapshot.workload))
        self._last, self._changes = snapshot, changes
        return snapshot
