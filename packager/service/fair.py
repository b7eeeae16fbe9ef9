"""Fair queues: each project has its turn, and in a project each caller, however much the others ask for."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from packager.base.values import Value
from packager.service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

Item = TypeVar("Item")
Result = TypeVar("Result")

ALL = "*"
"""The project of what belongs to no project alone."""


class Owner(Value, frozen=True):
    """Who something is done for.

    Attributes:
        project: The project, several of them as one, or ALL.
        caller: Who asks for it there.
    """

    project: str
    caller: str


class FairQueue(Generic[Item]):
    """Items that wait: projects take turns, and so do the callers of a project; a caller's items keep their order.

    Args:
        most: How many items of one caller may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._projects: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(items) for callers in self._projects.values() for items in callers.values())

    def add(self, owner: Owner, item: Item) -> None:
        """Add an item. Raises Failure if too many of its caller wait."""
        callers = self._projects.setdefault(owner.project, OrderedDict())
        waiting = callers.setdefault(owner.caller, deque())
        if len(waiting) >= self._most:
            detail = f"{self._most} requests of this kind wait, and no more of one caller may: send fewer at a time"
            raise Failure("too-many-requests", detail, retry_after=1)
        waiting.append(item)

    def put_back(self, owner: Owner, item: Item) -> None:
        """Add an item again that was taken, before all others."""
        callers = self._projects.setdefault(owner.project, OrderedDict())
        self._projects.move_to_end(owner.project, last=False)
        callers.setdefault(owner.caller, deque()).appendleft(item)
        callers.move_to_end(owner.caller, last=False)

    def take(self, may_begin: Callable[[Owner], bool] = lambda _owner: True) -> tuple[Owner, Item] | None:
        """Remove the next item and return it with its owner; None if there is none.

        Args:
            may_begin: Whether it is an owner's turn now: those for whom it is not keep their place.
        """
        for project, callers in self._projects.items():
            for caller, items in callers.items():
                owner = Owner(project, caller)
                if may_begin(owner):
                    item = items.popleft()
                    _end_turn(callers, caller)
                    _end_turn(self._projects, project)
                    return owner, item
        return None


def _end_turn(queues: OrderedDict[str, Any], name: str) -> None:
    """Let the other queues come first; an empty one is removed."""
    if queues[name]:
        queues.move_to_end(name)
    else:
        del queues[name]


def count_down(counter: Counter[Item], key: Item) -> None:
    """Count one less of something, and forget what there is none of."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class Turns:
    """Places, which owners have for a while; those who find none wait in a fair queue.

    Args:
        places: How many there are.
        share: How many a project may have at a time, and
        own_share: one caller of it.
        most: How many requests of one caller may wait.
    """

    def __init__(self, places: int, share: int, own_share: int, most: int) -> None:
        self._places = places
        self._share = share
        self._own_share = own_share
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue(most)
        self._projects: Counter[str] = Counter()
        self._owners: Counter[Owner] = Counter()

    async def begin(self, owner: Owner) -> None:
        """Wait for a place, and take it until `end`. Raises Failure if too many requests of the caller wait."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(owner, turn)
        self._call()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(owner)
            raise

    def end(self, owner: Owner) -> None:
        """Give a place back."""
        count_down(self._projects, owner.project)
        count_down(self._owners, owner)
        self._call()

    def _may_begin(self, owner: Owner) -> bool:
        return self._projects[owner.project] < self._share and self._owners[owner] < self._own_share

    def _call(self) -> None:
        """Give free places to those whose turn it is."""
        while self._projects.total() < self._places and (following := self._waiting.take(self._may_begin)):
            owner, turn = following
            if not turn.done():  # its request has not been cancelled
                self._projects[owner.project] += 1
                self._owners[owner] += 1
                turn.set_result(None)


class FairPool:
    """Threads for work that takes time, which projects and their callers have in turn.

    Args:
        name: What the threads are called.
        threads: How many there are.
        share: How many of them a project may have at a time; a caller has one.
        most: How many requests of one caller may wait.
    """

    def __init__(self, name: str, *, threads: int, share: int, most: int) -> None:
        self._turns = Turns(threads, share, 1, most)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, owner: Owner, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, which is called in a thread.

        Raises:
            Failure: As `work`; or too many requests of the caller wait.
        """
        await self._turns.begin(owner)
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        except BaseException:
            self._turns.end(owner)
            raise
        # A thread cannot be stopped: it has its place until it ends, even if its caller has gone.
        future.add_done_callback(lambda _: self._turns.end(owner))
        return await asyncio.shield(future)

    def close(self) -> None:
        """Begin nothing any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)
