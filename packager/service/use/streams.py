"""Streams that end when their caller may no longer read them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from packager.service.failures import Failure
from packager.service.store.databases import AwayError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

Item = TypeVar("Item")

LOOK_SECONDS = 15.0
"""Seconds between the checks whether the caller of an open stream may still read it."""

_REFUSED = frozenset({401, 403, 404})


async def guarded(items: AsyncGenerator[Item], check: Callable[[], Awaitable[object]]) -> AsyncIterator[Item]:
    """Yield items for as long as their caller may read them.

    The stream also ends when the token is removed or expires, or when the session ends. The stream continues while the
    database or the issuer does not answer.
    """
    following: asyncio.Future[Item | None] | None = None
    looked = monotonic()
    try:
        while True:
            following = following or asyncio.ensure_future(_next(items))
            await asyncio.wait([following], timeout=max(0.0, looked + LOOK_SECONDS - monotonic()))
            if monotonic() - looked >= LOOK_SECONDS:
                if await _is_refused(check):
                    return
                looked = monotonic()
            if following.done():
                item, following = following.result(), None
                if item is None:
                    return
                yield item
    finally:
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        await items.aclose()


async def _next(items: AsyncGenerator[Item]) -> Item | None:
    return await anext(items, None)


async def _is_refused(check: Callable[[], Awaitable[object]]) -> bool:
    try:
        await check()
    except Failure as failure:
        return failure.status in _REFUSED
    except AwayError:
        return False
    return False
