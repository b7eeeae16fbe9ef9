"""Fair queues: projects take turns, and callers within a project take turns, whatever the number of their requests."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

from packager.base.values import Value
from packager.service.failures import Failure
from packager.service.processor import MeasuredThreads, Shares

if TYPE_CHECKING:
    from collections.abc import Callable

Item = TypeVar("Item")
Result = TypeVar("Result")

ALL = "*"
"""The project of work that does not belong to a single project."""


_LOOK_SECONDS = 0.1
"""The seconds after which a queue looks again at projects that have used their share of the processor."""


class Owner(Value, frozen=True):
    """The project and the caller for whom work is done.

    Attributes:
        project: The name of the project, the names of several projects, or ALL.
        caller: The caller in this project.
    """

    project: str
    caller: str


class FairQueue(Generic[Item]):
    """Waiting items: projects and their callers take turns, and the items of a caller keep their order.

    Args:
        most: The maximum number of waiting items of one caller.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._projects: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(items) for callers in self._projects.values() for items in callers.values())

    def add(self, owner: Owner, item: Item) -> None:
        """Add an item. Raises Failure if too many items of the caller wait."""
        callers = self._projects.setdefault(owner.project, OrderedDict())
        waiting = callers.setdefault(owner.caller, deque())
        if len(waiting) >= self._most:
            detail = f"{self._most} requests of this kind wait, and no more of one caller may: send fewer at a time"
            raise Failure("too-many-requests", detail, retry_after=1)
        waiting.append(item)

    def put_back(self, owner: Owner, item: Item) -> None:
        """Add a taken item again, before all others."""
        callers = self._projects.setdefault(owner.project, OrderedDict())
        self._projects.move_to_end(owner.project, last=False)
        callers.setdefault(owner.caller, deque()).appendleft(item)
        callers.move_to_end(owner.caller, last=False)

    def take(self, may_begin: Callable[[Owner], bool] = lambda _owner: True) -> tuple[Owner, Item] | None:
        """Remove the next item, and return its owner and the item; None if there is no item.

        Args:
            may_begin: Returns whether an item of an owner may be taken now; other owners keep their place.
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


def _end_turn(queues: OrderedDict[str, Item], name: str) -> None:
    """Move a queue behind the others, or remove it if it is empty."""
    if queues[name]:
        queues.move_to_end(name)
    else:
        del queues[name]


def count_down(counter: Counter[Item], key: Item) -> None:
    """Decrease the count of a key by one, and remove the key if the count is 0."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class Turns:
    """Places for simultaneous work; owners without a place wait in a fair queue.

    Args:
        places: The number of places.
        share: The maximum number of places of a project.
        own_share: The maximum number of places of a caller.
        most: The maximum number of waiting requests of a caller.
        processor: The shares of the processor, within which projects get places; None for no limit.
    """

    def __init__(self, places: int, share: int, own_share: int, most: int, processor: Shares | None = None) -> None:
        self._places = places
        self._share = share
        self._own_share = own_share
        self._processor = processor
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: FairQueue[asyncio.Future[float]] = FairQueue(most)
        self._projects: Counter[str] = Counter()
        self._owners: Counter[Owner] = Counter()

    async def begin(self, owner: Owner) -> float:
        """Wait for a place, which is taken until `end`.

        Returns:
            The processor seconds that are counted for the work; see `Shares`.

        Raises:
            Failure: Too many requests of the caller wait.
        """
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.add(owner, turn)
        self._call()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(owner)
            raise

    def end(self, owner: Owner) -> None:
        """Free a place."""
        count_down(self._projects, owner.project)
        count_down(self._owners, owner)
        self._call()

    def _may_begin(self, owner: Owner) -> bool:
        has_place = self._projects[owner.project] < self._share and self._owners[owner] < self._own_share
        return has_place and self._is_within_share(owner.project)

    def _is_within_share(self, project: str) -> bool:
        """Whether a project may use the processor now; if not, look again as soon as it may."""
        pause = self._processor.pause(project) if self._processor else 0.0
        if pause > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(min(pause, _LOOK_SECONDS), self._look_again)
        return pause <= 0

    def _look_again(self) -> None:
        self._timer = None
        self._call()

    def _call(self) -> None:
        """Give free places to the next owners in the queue."""
        while self._projects.total() < self._places and (following := self._waiting.take(self._may_begin)):
            owner, turn = following
            if not turn.done():  # its request has not been cancelled
                self._projects[owner.project] += 1
                self._owners[owner] += 1
                turn.set_result(self._processor.begin(owner.project) if self._processor else 0.0)


class FairPool:
    """Threads for slow work, which projects and their callers use in turns.

    Args:
        name: The prefix of the threads' names.
        threads: The number of threads.
        share: The maximum number of threads of a project; a caller has at most one.
        most: The maximum number of waiting requests of a caller.
    """

    def __init__(self, name: str, *, threads: int, share: int, most: int) -> None:
        self._turns = Turns(threads, share, 1, most)
        self._executor = MeasuredThreads(threads, thread_name_prefix=name)

    async def run(self, owner: Owner, work: Callable[[], Result]) -> Result:
        """Call `work` in a thread, and return its result.

        Raises:
            Failure: Too many requests of the caller wait, or `work` has raised it.
        """
        await self._turns.begin(owner)
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        except BaseException:
            self._turns.end(owner)
            raise
        # A thread cannot be stopped: it keeps its place until it ends, even if its caller was cancelled.
        future.add_done_callback(lambda _: self._turns.end(owner))
        return await asyncio.shield(future)

    def close(self) -> None:
        """Start no more work, and cancel waiting work."""
        self._executor.shutdown(wait=False, cancel_futures=True)
