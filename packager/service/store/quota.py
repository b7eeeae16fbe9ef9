"""Decides which jobs may start within the limits of a project, in the order of their creation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Quota(Value, frozen=True):
    """The limits of a project; None for no limit.

    Attributes:
        running: Jobs that have started and not ended.
        running_per_creator: Jobs of one owner that have started and not ended.
        gpus: GPUs of the jobs that have started and not ended.
        queued: Waiting jobs.
    """

    running: int | None = None
    running_per_creator: int | None = None
    gpus: int | None = None
    queued: int | None = None


class Share(Value, frozen=True):
    """A job's share of the limits of its project."""

    release: str
    owner: str
    gpus: int


def startable(started: Iterable[Share], waiting: Iterable[Share], limits: Quota) -> Iterator[str]:
    """Yield the releases of the waiting jobs for which there is room.

    A job for which the project has no room blocks all jobs behind it, so that small jobs cannot delay a large one
    without end. A job that waits only because of its owner's limit does not block jobs of other owners.

    Args:
        started: The jobs that have started and not ended.
        waiting: The waiting jobs, the oldest first.
        limits: The limits of the project.
    """
    jobs = gpus = 0
    owners: Counter[str] = Counter()
    for share in started:
        jobs, gpus = jobs + 1, gpus + share.gpus
        owners[share.owner] += 1
    for share in waiting:
        if limits.running_per_creator is not None and owners[share.owner] >= limits.running_per_creator:
            continue
        if limits.running is not None and jobs >= limits.running:
            return
        if limits.gpus is not None and share.gpus and gpus + share.gpus > limits.gpus:
            return
        yield share.release
        jobs, gpus = jobs + 1, gpus + share.gpus
        owners[share.owner] += 1
