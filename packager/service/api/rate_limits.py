"""Admits requests in turn, within the limits of requests per second and at a time.

Requests that read have separate places, so that they never wait for requests that create jobs or check definitions.
While several projects use the server, each gets places only within its share of the processor.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from packager.service import processor
from packager.service.failures import Failure
from packager.service.fair_queues import FairPool, Owner, Turns, count_down
from packager.service.processor import Shares

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from litestar import Request
    from litestar.datastructures import State
    from litestar.types import HTTPScope

    from packager.service.access.tokens import Caller
    from packager.service.config import LimitsConfig
    from packager.service.processor import Meter

    HttpRequest = Request[object, object, State]

Parsed = TypeVar("Parsed")

_KEY = "mlpack-visit"
_SAFE = ("GET", "HEAD", "OPTIONS")

_READS = (8, 3, 2)
_CHANGES = (32, 12, 10)
"""The most requests that are answered at a time: of all callers, of a project and of a caller. Changes wait for the
cluster."""

_PARSING = 2
"""The number of long bodies that are parsed at a time, one of each project: parsing delays the other threads."""

_LONGEST_PAUSE = 1.0
"""The longest delay, in seconds, of a request of a caller who makes too many requests."""

_BURST_SECONDS = 3.0
"""The seconds of a caller's rate that may be used in one burst after a silence."""

_ANONYMOUS_PER_SECOND = 20
"""The requests per second without a caller that an address may send before the answers are delayed."""

_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class _Visit:
    """The place of a request in the server.

    Attributes:
        owner: The project and the caller of the request.
        meter: The processor time of the request.
        counted: The processor seconds that are counted for the request; 0 before its turn.
        turns: The turns that count the request; None if the request has no place.
        has_stream: Whether the answer is a stream that continues as events occur.
    """

    owner: Owner
    meter: Meter
    counted: float = 0.0
    turns: Turns | None = None
    has_stream: bool = False


class Door:
    """Counts the requests of each caller and project.

    Args:
        limits: The limits of requests and streams.
        clock: Returns seconds that only grow.
    """

    def __init__(self, limits: LimitsConfig, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._shares = Shares(limits.project_processor_percent, clock)
        self._reads, self._changes = (
            Turns(*places, most=limits.requests_at_once, processor=self._shares) for places in (_READS, _CHANGES)
        )
        self._of_callers = Rates(limits.caller_requests_per_second, clock)
        self._of_projects = Rates(limits.project_requests_per_second, clock)
        self._parsing = FairPool("body", threads=_PARSING, share=1, most=limits.requests_at_once)
        self._anonymous = Rates(_ANONYMOUS_PER_SECOND, clock)
        self._at_once: Counter[Owner] = Counter()
        self._of_project: Counter[str] = Counter()
        self._streams: Counter[Owner] = Counter()

    async def enter(self, request: HttpRequest, caller: Caller) -> None:
        """Admit a request once: read its body and wait for its turn. Raises Failure if its caller sends too many."""
        if _KEY in request.state:
            return
        owner = Owner(caller.projects, caller.key)
        if self._at_once[owner] >= self._limits.requests_at_once:
            await self._refuse("requests_at_once", f"{self._at_once[owner]} requests of {caller.name} are at work")
        if self._of_project[owner.project] >= self._limits.project_requests_at_once:
            detail = f"{self._of_project[owner.project]} requests of the project are at work, streams among them"
            await self._refuse("project_requests_at_once", detail)
        self._at_once[owner] += 1
        self._of_project[owner.project] += 1
        self._shares.see(owner.project)
        visit = request.state[_KEY] = _Visit(owner, processor.current())
        await self._wait("project_requests_per_second", self._of_projects, owner.project, "the project")
        await self._wait("caller_requests_per_second", self._of_callers, owner, caller.name)
        is_reading = request.method in _SAFE
        if not is_reading:
            await request.body()
        turns = self._reads if is_reading else self._changes
        visit.counted = await turns.begin(owner)
        visit.turns = turns

    async def parsed(self, request: HttpRequest, parse: Callable[[], Parsed]) -> Parsed:
        """Run `parse`, which parses the body of a request, in a thread, and return its result."""
        visit: _Visit = request.state[_KEY]
        return await self._parsing.run(visit.owner, parse)

    async def hold_back(self, scope: HTTPScope) -> None:
        """Delay the answer to a request without a caller if its address has sent many such requests."""
        if _KEY not in scope["state"]:
            address = (scope.get("client") or ("", 0))[0]
            await asyncio.sleep(min(max(self._anonymous.pause(address), 0), _LONGEST_PAUSE))

    async def _wait(self, limit: str, rates: Rates, key: Hashable, who: str) -> None:
        pause = rates.pause(key)
        if pause > _LONGEST_PAUSE:
            await self._refuse(limit, f"{who} makes more than {rates.a_second} requests a second", math.ceil(pause))
        if pause > 0:
            await asyncio.sleep(pause)

    @staticmethod
    async def _refuse(limit: str, detail: str, seconds: int = 1) -> None:
        """Raise Failure after a pause, so that immediate retries are not answered more often."""
        await asyncio.sleep(_LONGEST_PAUSE)
        hint = f"limits.{limit} in the configuration of the server"
        raise Failure("too-many-requests", f"{detail} ({hint})", retry_after=seconds)

    def begin_stream(self, request: HttpRequest) -> None:
        """Count a stream until its end. Raises Failure if its caller has too many open streams."""
        visit: _Visit = request.state[_KEY]
        if self._streams[visit.owner] >= self._limits.streams:
            detail = f"{self._streams[visit.owner]} streams of the caller are open (limits.streams in the configuration"
            raise Failure("too-many-requests", f"{detail} of the server): close one of them")
        self._streams[visit.owner] += 1
        visit.has_stream = True

    @staticmethod
    def answered(scope: HTTPScope) -> None:
        """End the turn of a request when its answer begins, as the answer may take long."""
        visit: _Visit | None = scope["state"].get(_KEY)
        if visit is not None and visit.turns is not None:
            visit.turns.end(visit.owner)
            visit.turns = None

    def left(self, scope: HTTPScope) -> None:
        """Stop counting a request that has ended, and its stream."""
        visit: _Visit | None = scope["state"].get(_KEY)
        if visit is None:
            return
        self.answered(scope)
        self._shares.end(visit.owner.project, visit.counted, visit.meter.seconds)
        count_down(self._at_once, visit.owner)
        count_down(self._of_project, visit.owner.project)
        if visit.has_stream:
            count_down(self._streams, visit.owner)


class Rates:
    """Limits the rate of requests by key: an even rate, and a burst after a silence.

    The generic cell rate algorithm (ITU-T I.371): for each key, the time until which its allowance is used is stored.

    Args:
        a_second: The requests per second of each key.
        clock: Returns seconds that only grow.
    """

    def __init__(self, a_second: int, clock: Callable[[], float]) -> None:
        self.a_second = a_second
        self._clock = clock
        self._used_until: dict[Hashable, float] = {}

    def pause(self, key: Hashable) -> float:
        """Return the seconds that a request of a key has to wait; a request with too long a wait is not counted."""
        now = self._clock()
        used = max(self._used_until.get(key, 0.0), now)
        pause = used - now - _BURST_SECONDS
        if pause <= _LONGEST_PAUSE:
            if len(self._used_until) >= _MOST_REMEMBERED:
                self._used_until = {other: time for other, time in self._used_until.items() if time > now}
            self._used_until[key] = used + 1 / self.a_second
        return pause
