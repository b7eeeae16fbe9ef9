"""Decides which jobs may start within the limits of a project: the first come are the first served."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Quota(Value, frozen=True):
    """How much a project may have at a time; None for no limit.

    Attributes:
        running: Jobs that have started and not ended.
        running_per_creator: The same, of one owner.
        gpus: GPUs of these jobs.
        queued: Jobs that wait.
    """

    running: int | None = None
    running_per_creator: int | None = None
    gpus: int | None = None
    queued: int | None = None


class Share(Value, frozen=True):
    """What a job takes of the limits of its project."""

    release: str
    owner: str
    gpus: int


def startable(started: Iterable[Share], waiting: Iterable[Share], limits: Quota) -> Iterator[str]:
    """Yield the releases of the waiting jobs for which there is room.

    A job that the project has no room for holds back all jobs behind it, so that small jobs do not keep a large one
    waiting forever. A job that only its creator's limit keeps from starting lets those of others pass.

    Args:
        started: The jobs that have started and not ended.
        waiting: The jobs that wait, the first come first.
        limits: The limits of their project.
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
