"""Lets requests in: as many a second and at a time as the limits allow, and then when it is their turn.

Requests that read have places of their own, so that they never wait for those that make jobs or check definitions.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from packager.service.failures import Failure
from packager.service.fair import ALL, FairPool, Owner, Turns, count_down

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from litestar import Request
    from litestar.types import HTTPScope

    from packager.service.access.tokens import Caller
    from packager.service.config import LimitsConfig

    AnyRequest = Request[Any, Any, Any]

Parsed = TypeVar("Parsed")

_KEY = "mlpack-visit"
_SAFE = ("GET", "HEAD", "OPTIONS")

_READS = (8, 3, 2)
_CHANGES = (32, 12, 10)
"""How many requests are answered at a time, how many of a project, and how many of a caller. Changes wait for the
cluster."""

_PARSING = 2
"""How many long bodies are parsed at a time, one of each project: each keeps the other threads waiting now and then."""

_LONGEST_PAUSE = 1.0
"""Seconds that a request of a caller who makes too many is held back."""

_BURST_SECONDS = 3.0
"""For how many seconds a caller who has been silent may make requests at once."""

_REFUSED_PER_SECOND = 20
"""How many requests without a valid token an address may send before they are answered late."""

_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class _Visit:
    """What a request has of the server.

    Attributes:
        owner: Who makes it.
        turns: Where it has a place; None if it has none.
        has_stream: Whether its answer goes on as things happen.
    """

    owner: Owner
    turns: Turns | None = None
    has_stream: bool = False


class Door:
    """Counts the requests of each caller and project.

    Args:
        limits: How many there may be.
        clock: Returns seconds that only grow.
    """

    def __init__(self, limits: LimitsConfig, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._reads, self._changes = (Turns(*places, most=limits.requests_at_once) for places in (_READS, _CHANGES))
        self._of_callers = Rates(limits.caller_requests_per_second, clock)
        self._of_projects = Rates(limits.project_requests_per_second, clock)
        self._parsing = FairPool("body", threads=_PARSING, share=1, most=limits.requests_at_once)
        self._refused = Rates(_REFUSED_PER_SECOND, clock)
        self._at_once: Counter[Owner] = Counter()
        self._streams: Counter[Owner] = Counter()

    async def enter(self, request: AnyRequest, caller: Caller) -> None:
        """Let a request in, once: read its body, and wait for its turn. Raises Failure if its caller makes too many."""
        if _KEY in request.scope:
            return
        owner = Owner(",".join(sorted(caller.roles)) or ALL, caller.key)
        if self._at_once[owner] >= self._limits.requests_at_once:
            await self._refuse("requests_at_once", f"{self._at_once[owner]} requests of {caller.name} are at work")
        self._at_once[owner] += 1
        visit = request.scope[_KEY] = _Visit(owner)  # type: ignore[literal-required]
        await self._wait("project_requests_per_second", self._of_projects, owner.project, "the project")
        await self._wait("caller_requests_per_second", self._of_callers, owner, caller.name)
        is_reading = request.method in _SAFE
        if not is_reading:
            await request.body()
        turns = self._reads if is_reading else self._changes
        await turns.begin(owner)
        visit.turns = turns

    async def parsed(self, request: AnyRequest, parse: Callable[[], Parsed]) -> Parsed:
        """Return what `parse` returns, which parses the body of a request in a thread."""
        visit: _Visit = request.scope[_KEY]  # type: ignore[literal-required]
        return await self._parsing.run(visit.owner, parse)

    async def hold_back(self, request: AnyRequest) -> None:
        """Let a request wait that is refused, if its address has sent many of them: each has looked for a token."""
        address = request.client.host if request.client else ""
        await asyncio.sleep(min(max(self._refused.pause(address), 0), _LONGEST_PAUSE))

    async def _wait(self, limit: str, rates: Rates, key: Hashable, who: str) -> None:
        pause = rates.pause(key)
        if pause > _LONGEST_PAUSE:
            await self._refuse(limit, f"{who} makes more than {rates.a_second} requests a second", math.ceil(pause))
        if pause > 0:
            await asyncio.sleep(pause)

    @staticmethod
    async def _refuse(limit: str, detail: str, seconds: int = 1) -> None:
        """Raise Failure, late: those who ask again at once are not answered more often."""
        await asyncio.sleep(_LONGEST_PAUSE)
        hint = f"limits.{limit} in the configuration of the server"
        raise Failure("too-many-requests", f"{detail} ({hint})", retry_after=seconds)

    def begin_stream(self, request: AnyRequest) -> None:
        """Count an answer that goes on as things happen, until its end. Raises Failure if its caller has too many."""
        visit: _Visit = request.scope[_KEY]  # type: ignore[literal-required]
        if self._streams[visit.owner] >= self._limits.streams:
            detail = f"{self._streams[visit.owner]} streams of the caller are open (limits.streams in the configuration"
            raise Failure("too-many-requests", f"{detail} of the server): close one of them")
        self._streams[visit.owner] += 1
        visit.has_stream = True

    @staticmethod
    def answered(scope: HTTPScope) -> None:
        """End the turn of a request, whose answer begins: it may be a long one."""
        visit: _Visit | None = scope.get(_KEY)  # type: ignore[assignment]
        if visit is not None and visit.turns is not None:
            visit.turns.end(visit.owner)
            visit.turns = None

    def left(self, scope: HTTPScope) -> None:
        """Count a request no more."""
        visit: _Visit | None = scope.get(_KEY)  # type: ignore[assignment]
        if visit is None:
            return
        self.answered(scope)
        count_down(self._at_once, visit.owner)
        if visit.has_stream:
            count_down(self._streams, visit.owner)


class Rates:
    """How often each of many may do something: evenly, and some at once after a silence.

    It is the generic cell rate algorithm (ITU-T I.371): for each is remembered until when its allowance is used.

    Args:
        a_second: How often in a second.
        clock: Returns seconds that only grow.
    """

    def __init__(self, a_second: int, clock: Callable[[], float]) -> None:
        self.a_second = a_second
        self._clock = clock
        self._used_until: dict[Hashable, float] = {}

    def pause(self, key: Hashable) -> float:
        """Return how many seconds someone has to wait; what would have to wait too long is not counted."""
        now = self._clock()
        used = max(self._used_until.get(key, 0.0), now)
        pause = used - now - _BURST_SECONDS
        if pause <= _LONGEST_PAUSE:
            if len(self._used_until) >= _MOST_REMEMBERED:
                self._used_until = {other: time for other, time in self._used_until.items() if time > now}
            self._used_until[key] = used + 1 / self.a_second
        return pause
