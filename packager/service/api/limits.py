"""Admits requests: a bucket and a few places for each caller, so that one who sends many waits, and others do not."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.service.failures import Failure
from packager.service.work import Rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar import Request
    from litestar.datastructures import State
    from litestar.types import HTTPScope

    from packager.service.access.tokens import Caller
    from packager.service.config import LimitsConfig

    HttpRequest = Request[object, object, State]

_KEY = "mlpack-visit"
_SAFE = ("GET", "HEAD", "OPTIONS")

_PLACES = 2
"""The most requests of a caller that are answered at a time; the others wait."""

BODY_SECONDS = 30.0
"""The seconds in which the body of a request must arrive."""

_LONGEST_PAUSE = 1.0
"""The longest delay, in seconds, of a request of a caller who makes too many requests."""

_ANONYMOUS_PER_SECOND = 20
"""The requests per second without a caller that an address may send before the answers are delayed."""


@dataclass(slots=True)
class _Visit:
    """A request in the server."""

    caller: str
    has_place: bool = False
    has_stream: bool = False  # whether the answer is a stream that continues as events occur


class Door:
    """Counts the requests of each caller."""

    def __init__(self, limits: LimitsConfig, clock: Callable[[], float] | None = None) -> None:
        self._limits = limits
        more = (clock,) if clock else ()
        self._of_callers = Rates(limits.caller_requests_per_second, *more)
        self._anonymous = Rates(_ANONYMOUS_PER_SECOND, *more)
        self._at_once: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._places: dict[str, asyncio.Semaphore] = {}

    async def enter(self, request: HttpRequest, caller: Caller) -> None:
        """Admit a request once: read its body and wait for a place. Raises Failure if its caller sends too many."""
        if _KEY in request.state:
            return
        key = caller.key
        if self._at_once[key] >= self._limits.requests_at_once:
            await self._refuse("requests_at_once", f"{self._at_once[key]} requests of {caller.name} are at work")
        self._at_once[key] += 1
        visit = request.state[_KEY] = _Visit(key)
        pause = self._of_callers.pause(key, _LONGEST_PAUSE)
        if pause > _LONGEST_PAUSE:
            detail = f"{caller.name} makes more than {self._of_callers.a_second} requests a second"
            await self._refuse("caller_requests_per_second", detail, math.ceil(pause))
        await asyncio.sleep(pause)
        if request.method not in _SAFE:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    await request.body()
            except TimeoutError:
                raise Failure("too-slow", f"the body has not arrived within {BODY_SECONDS:g} s") from None
        await self._places.setdefault(key, asyncio.Semaphore(_PLACES)).acquire()
        visit.has_place = True

    @staticmethod
    async def _refuse(limit: str, detail: str, seconds: int = 1) -> None:
        """Raise Failure after a pause, so that immediate retries are not answered more often."""
        await asyncio.sleep(_LONGEST_PAUSE)
        hint = f"limits.{limit} in the configuration of the server"
        raise Failure("too-many-requests", f"{detail} ({hint})", retry_after=seconds)

    async def hold_back(self, scope: HTTPScope) -> None:
        """Delay the answer to a request without a caller if its address has sent many such requests."""
        if _KEY not in scope["state"]:
            await asyncio.sleep(min(self._anonymous.pause(address_of(scope), _LONGEST_PAUSE), _LONGEST_PAUSE))

    def begin_stream(self, request: HttpRequest) -> None:
        """Count a stream until its end. Raises Failure if its caller has too many open streams."""
        visit: _Visit = request.state[_KEY]
        if self._streams[visit.caller] >= self._limits.streams:
            detail = (
                f"{self._streams[visit.caller]} streams of the caller are open (limits.streams in the configuration"
            )
            raise Failure("too-many-requests", f"{detail} of the server): close one of them")
        self._streams[visit.caller] += 1
        visit.has_stream = True

    def answered(self, scope: HTTPScope) -> None:
        """Free the place of a request when its answer begins, as the answer may take long."""
        visit: _Visit | None = scope["state"].get(_KEY)
        if visit is not None and visit.has_place:
            visit.has_place = False
            self._places[visit.caller].release()

    def left(self, scope: HTTPScope) -> None:
        """Stop counting a request that has ended, and its stream."""
        visit: _Visit | None = scope["state"].get(_KEY)
        if visit is None:
            return
        self.answered(scope)
        self._at_once[visit.caller] -= 1
        self._streams[visit.caller] -= visit.has_stream
        if not self._at_once[visit.caller]:
            for counts in (self._at_once, self._streams, self._places):
                counts.pop(visit.caller, None)


def address_of(scope: HTTPScope) -> str:
    """Return the address from which a request comes, which may be that of a proxy."""
    return (scope.get("client") or ("", 0))[0]
