"""Decides which jobs may start within the limits of a project, in the order of their creation."""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Quota(Value, frozen=True):
    """The limits of a project; None for no limit."""

    running: int | None = None  # jobs that have started and not ended
    running_per_creator: int | None = None  # jobs of one owner that have started and not ended
    gpus: int | None = None  # GPUs of the jobs that have started and not ended
    queued: int | None = None  # waiting jobs


class Share(Value, frozen=True):
    """A job's share of the limits of its project."""

    release: str
    owner: str
    gpus: int


class Wait(Value, frozen=True):
    """The place of a waiting job in the queue of its project, from 1 on, and why it waits."""

    place: int
    reason: str


class _Obstacle(Enum):
    """A limit that leaves no room for a job."""

    PER_CREATOR = auto()
    RUNNING = auto()
    GPUS = auto()


class _Started:
    """The jobs that have started, counted."""

    def __init__(self, shares: Iterable[Share]) -> None:
        self.jobs = self.gpus = 0
        self.owners: Counter[str] = Counter()
        for share in shares:
            self.add(share)

    def add(self, share: Share) -> None:
        """Count one more."""
        self.jobs, self.gpus = self.jobs + 1, self.gpus + share.gpus
        self.owners[share.owner] += 1

    def obstacle(self, share: Share, limits: Quota) -> _Obstacle | None:
        """Return the first limit that leaves no room for one more; None if there is room."""
        if limits.running_per_creator is not None and self.owners[share.owner] >= limits.running_per_creator:
            return _Obstacle.PER_CREATOR
        if limits.running is not None and self.jobs >= limits.running:
            return _Obstacle.RUNNING
        if limits.gpus is not None and share.gpus and self.gpus + share.gpus > limits.gpus:
            return _Obstacle.GPUS
        return None


def waits(started: Iterable[Share], waiting: Iterable[Share], limits: Quota) -> dict[str, Wait]:
    """Return for each waiting job its place, and why it waits: the limit that was reached, or the jobs before it."""
    others = _Started(started)
    result: dict[str, Wait] = {}
    for place, share in enumerate(waiting, 1):
        match others.obstacle(share, limits):
            case _Obstacle.PER_CREATOR:
                own = others.owners[share.owner]
                reason = f"{own} of at most {limits.running_per_creator} jobs of its creator have started"
            case _Obstacle.RUNNING:
                reason = f"{others.jobs} of at most {limits.running} jobs of the project have started"
            case _Obstacle.GPUS:
                reason = f"it takes {share.gpus} GPUs, and {others.gpus} of the project's {limits.gpus} are in use"
            case None:
                reason = "other jobs wait before it" if place > 1 else "it starts soon"
        result[share.release] = Wait(place, f"waits for room in the project: {reason}")
    return result


def startable(started: Iterable[Share], waiting: Iterable[Share], limits: Quota) -> Iterator[str]:
    """Yield the releases of the waiting jobs for which there is room.

    A job for which the project has no room blocks all jobs behind it, so that small jobs cannot delay a large one
    without end. A job that waits only because of its owner's limit does not block jobs of other owners.
    """
    others = _Started(started)
    for share in waiting:
        reason = others.obstacle(share, limits)
        if reason is _Obstacle.PER_CREATOR:
            continue
        if reason is not None:
            return
        yield share.release
        others.add(share)
