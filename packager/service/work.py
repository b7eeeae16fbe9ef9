"""Work of owners: one pool of threads for all that computes or waits long, and one bucket of requests for each caller.

Python computes in one thread at a time, so all such work has an owner and is metered: next comes the owner who has used
the pool least, and each has one thread at most.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from packager.base.values import Value
from packager.service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Result = TypeVar("Result")

_THREADS = 6
_OF_ADDRESSES = 2
"""The threads in all, and those for people who are not identified yet: they may wait for an issuer."""

_MOST_WAITING = 64
"""The most waiting pieces of work of one owner."""

_MOST_REMEMBERED = 10_000
_BURST_SECONDS = 3.0
"""The seconds of a rate that may be used in one burst after a silence."""


class Owner(Value, frozen=True):
    """For whom work is done."""

    name: str  # the key of a caller, a project, or an address
    is_address: bool = False


class Work:
    """The pool of threads of a server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="work")
        self._waiting: dict[Owner, deque[asyncio.Future[None]]] = {}
        self._running: Counter[bool] = Counter()
        self._owners: set[Owner] = set()
        self._used: dict[Owner, float] = {}

    async def run(self, owner: Owner, work: Callable[[], Result]) -> Result:
        """Call `work` in a thread when it is the turn of its owner, and return its result. Raises Failure."""
        waiting = self._waiting.setdefault(owner, deque())
        if len(waiting) >= _MOST_WAITING:
            detail = f"{_MOST_WAITING} requests of this kind wait, and no more of one caller may: send fewer at a time"
            raise Failure("too-many-requests", detail, retry_after=1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        if len(waiting) == 1 and owner not in self._owners:  # a silence is not saved up
            others = [self._used.get(other, 0.0) for other in (*self._waiting, *self._owners) if other != owner]
            self._used[owner] = max(self._used.get(owner, 0.0), min(others, default=0.0))
        self._start()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(owner, 0.0)
            raise
        begun = monotonic()
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        # A thread cannot be stopped: it keeps its place until it ends, even if its caller was cancelled.
        future.add_done_callback(lambda _: self._end(owner, monotonic() - begun))
        return await asyncio.shield(future)

    def _start(self) -> None:
        """Give free threads to the owners who have used the pool least."""
        while self._running.total() < _THREADS:
            ready = [
                owner
                for owner, turns in self._waiting.items()
                if turns and owner not in self._owners and (not owner.is_address or self._running[True] < _OF_ADDRESSES)
            ]
            if not ready:
                return
            owner = min(ready, key=lambda owner: self._used.get(owner, 0.0))
            turn = self._waiting[owner].popleft()
            if not self._waiting[owner]:
                del self._waiting[owner]
            if not turn.done():  # its request has not been cancelled
                self._owners.add(owner)
                self._running[owner.is_address] += 1
                turn.set_result(None)

    def _end(self, owner: Owner, seconds: float) -> None:
        self._owners.discard(owner)
        self._running[owner.is_address] -= 1
        if len(self._used) >= _MOST_REMEMBERED:
            self._used = {other: used for other, used in self._used.items() if other in self._waiting}
        self._used[owner] = self._used.get(owner, 0.0) + seconds
        self._start()

    def close(self) -> None:
        """Start no more work, and cancel waiting work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Rates:
    """Limits the rate of requests by key: an even rate, and a burst after a silence.

    The generic cell rate algorithm (ITU-T I.371): for each key, the time until which its allowance is used is stored.
    """

    def __init__(self, a_second: int, clock: Callable[[], float] = monotonic) -> None:
        self.a_second = a_second
        self._clock = clock
        self._used_until: dict[Hashable, float] = {}

    def pause(self, key: Hashable, most: float) -> float:
        """Return the seconds that a request of a key has to wait; one that would wait longer than `most` counts not."""
        now = self._clock()
        used = max(self._used_until.get(key, 0.0), now)
        pause = max(used - now - _BURST_SECONDS, 0.0)
        if pause <= most:
            if len(self._used_until) >= _MOST_REMEMBERED:
                self._used_until = {other: time for other, time in self._used_until.items() if time > now}
            self._used_until[key] = used + 1 / self.a_second
        return pause
