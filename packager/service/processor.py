"""Shares of the processor: measures the processor time of requests, and delays projects that take too much of it.

Python computes on one processor at a time. The requests of a project are counted by the time that they really take,
whatever they ask for, so no kind of request needs a limit of its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from time import monotonic, thread_time
from types import coroutine
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from concurrent.futures import Future

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

_BURST_SECONDS = 3.0
"""The seconds of a project's share that may be used in one burst after a silence."""

_LONGEST_DEBT = 5.0
"""The longest time, in seconds, for which a project pays for what it used while it was alone."""

_ACTIVE_SECONDS = 10.0
"""The seconds after its last request for which a project counts as a user of the server."""

_FIRST_GUESS = 0.005
_WEIGHT = 0.1
"""The processor seconds that are expected of the first request, and the weight of each request in the average."""


class Meter:
    """The processor seconds of a request, in all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Add processor seconds."""
        self.seconds += seconds


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


def start() -> Meter:
    """Create a meter for the work of the current task and of the threads that it starts, and return the meter."""
    meter = Meter()
    _METER.set(meter)
    return meter


def current() -> Meter:
    """Return the meter of the current work; a new, unread meter without one."""
    return _METER.get() or Meter()


@coroutine
def measured(meter: Meter, work: Coroutine[object, object, Result]) -> Generator[object, object, Result]:
    """Await a coroutine, add the processor time of its steps to a meter, and return its result."""
    step = partial(work.send, None)
    while True:
        begun = thread_time()
        try:
            awaited = step()
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            meter.add(thread_time() - begun)
        try:
            value = yield awaited
        except BaseException as error:  # noqa: BLE001 - the coroutine gets it
            step = partial(work.throw, error)
        else:
            step = partial(work.send, value)


class MeasuredThreads(ThreadPoolExecutor):
    """Threads whose processor time is added to the meter of the task that has submitted the work."""

    def submit(
        self, work: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Call a function in a thread."""
        return super().submit(_measured_call, current(), partial(work, *args, **kwargs))


def _measured_call(meter: Meter, work: Callable[[], Result]) -> Result:
    begun, token = thread_time(), _METER.set(meter)
    try:
        return work()
    finally:
        _METER.reset(token)
        meter.add(thread_time() - begun)


class Shares:
    """The shares of the processor that projects may use while other projects use the server.

    A request is counted when it begins, with the average of its project; the difference to its real time follows at its
    end. So requests that wait together do not begin together.

    Args:
        percent: The processor time of a project, as a percentage of one processor.
        clock: Returns seconds that only grow.
    """

    def __init__(self, percent: int, clock: Callable[[], float] = monotonic) -> None:
        self._rate = percent / 100
        self._clock = clock
        self._used_until: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._averages: dict[str, float] = {}

    def see(self, project: str) -> None:
        """Note that a project uses the server."""
        self._seen[project] = self._clock()

    def pause(self, project: str) -> float:
        """Return the seconds until a request of a project may begin; 0 if no other project uses the server."""
        now = self._clock()
        is_alone = all(name == project or now - time > _ACTIVE_SECONDS for name, time in self._seen.items())
        return 0.0 if is_alone else max(self._used_until.get(project, 0.0) - now - _BURST_SECONDS, 0.0)

    def begin(self, project: str) -> float:
        """Count a request that begins, and return the counted processor seconds."""
        expected = self._averages.get(project, _FIRST_GUESS)
        self._use(project, expected)
        return expected

    def end(self, project: str, counted: float, seconds: float) -> None:
        """Correct the count of a request that has ended.

        Args:
            project: The project of the request.
            counted: The result of `begin`; 0 for a request that was refused.
            seconds: The processor seconds of the request.
        """
        self._use(project, seconds - counted)
        if counted:
            self._averages[project] = counted + _WEIGHT * (seconds - counted)

    def _use(self, project: str, seconds: float) -> None:
        now = self._clock()
        used = max(self._used_until.get(project, 0.0), now) + seconds / self._rate
        self._used_until[project] = min(used, now + _BURST_SECONDS + _LONGEST_DEBT)
