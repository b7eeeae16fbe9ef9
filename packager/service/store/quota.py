"""Decides which jobs may start within the limits of a project, in the order of their creation."""

from __future__ import annotations

from collections import Counter
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

    def obstacle(self, share: Share, limits: Quota) -> tuple[str, bool] | None:
        """Return the first limit that leaves no room for a job, and whether it is its owner's; None for room."""
        own = self.owners[share.owner]
        if limits.running_per_creator is not None and own >= limits.running_per_creator:
            return f"{own} of at most {limits.running_per_creator} jobs of its creator have started", True
        if limits.running is not None and self.jobs >= limits.running:
            return f"{self.jobs} of at most {limits.running} jobs of the project have started", False
        if limits.gpus is not None and share.gpus and self.gpus + share.gpus > limits.gpus:
            return f"it takes {share.gpus} GPUs, and {self.gpus} of the project's {limits.gpus} are in use", False
        return None


def waits(started: Iterable[Share], waiting: Iterable[Share], limits: Quota) -> dict[str, Wait]:
    """Return for each waiting job its place, and why it waits: the limit that was reached, or the jobs before it."""
    others = _Started(started)
    result: dict[str, Wait] = {}
    for place, share in enumerate(waiting, 1):
        obstacle = others.obstacle(share, limits)
        reason = obstacle[0] if obstacle else "other jobs wait before it" if place > 1 else "it starts soon"
        result[share.release] = Wait(place, f"waits for room in the project: {reason}")
    return result


def startable(started: Iterable[Share], waiting: Iterable[Share], limits: Quota) -> Iterator[str]:
    """Yield the releases of the waiting jobs for which there is room.

    A job for which the project has no room blocks all jobs behind it, so that small jobs cannot delay a large one
    without end. A job that waits only because of its owner's limit does not block jobs of other owners.
    """
    others = _Started(started)
    for share in waiting:
        obstacle = others.obstacle(share, limits)
        if obstacle is None:
            yield share.release
            others.add(share)
        elif not obstacle[1]:
            return
