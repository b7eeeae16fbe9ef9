"""The jobs that wait for the control loop, and the tasks that wait for news. Tests: service/jobs/test_waiting.py."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Waiting:
    """The jobs to look at. Namespaces take turns, so that many jobs of one do not delay those of others."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._namespaces: OrderedDict[str | None, _Queue] = OrderedDict()
        self._at_work: dict[str, str | None] = {}

    def __len__(self) -> int:
        return sum(len(queue.news) + len(queue.due) for queue in self._namespaces.values())

    def add(self, release: str, namespace: str | None, since: float | None) -> None:
        """Add a job, unless it waits already.

        Args:
            release: The release of the job.
            namespace: The namespace of the job; None if it is not known.
            since: The time of news about the job, which comes before jobs of its namespace without news; None without.
        """
        queue = self._namespaces.setdefault(namespace, _Queue({}, {}))
        (queue.due if since is None else queue.news).setdefault(release, since)

    def take(self) -> tuple[str, str | None, float | None] | None:
        """Remove the next job from its queue, and return its release, its namespace and the time of its news.

        The job counts as being looked at until `done`. The result is None if no job waits whose namespace has a free
        place.
        """
        counts = list(self._at_work.values())
        for namespace, queue in self._namespaces.items():
            if namespace is not None and counts.count(namespace) >= self._share:
                continue
            for waiting in queue:
                for release in waiting:
                    if release not in self._at_work:
                        since = waiting.pop(release)
                        self._at_work[release] = namespace
                        self._namespaces.move_to_end(namespace)
                        if not any(queue):
                            del self._namespaces[namespace]
                        return release, namespace, since
        return None

    def done(self, release: str) -> None:
        """Note that a job is not being looked at any more."""
        self._at_work.pop(release, None)

    def clear(self) -> None:
        """Forget all jobs."""
        self._namespaces.clear()
        self._at_work.clear()


class _Queue(NamedTuple):
    """The waiting jobs of a namespace, in their order, each with the time of its news."""

    news: dict[str, float | None]
    due: dict[str, float | None]


class Pulse:
    """A counter of changes, with a method to wait for the next one."""

    def __init__(self) -> None:
        self.generation = 0  # the number of changes
        self.on_change: list[Callable[[], None]] = []  # the functions that are called at each change
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Count a change, wake waiting tasks, and call the functions in `on_change`."""
        self.generation += 1
        current, self._next = self._next, asyncio.Event()
        current.set()
        for call in self.on_change:
            call()

    async def wait(self, generation: int, seconds: float) -> bool:
        """Return True when the generation differs from `generation`, or False after `seconds`."""
        if self.generation == generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._next.wait()
        return self.generation != generation
