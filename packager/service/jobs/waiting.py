"""The jobs that wait for the control loop, whose namespaces take turns. Tests: service/jobs/test_waiting.py."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple


class Waiting:
    """The jobs that wait to be looked at. Namespaces take turns, so that many jobs of one do not delay those of others.

    Args:
        share: The most jobs of a namespace that are looked at simultaneously.
    """

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
