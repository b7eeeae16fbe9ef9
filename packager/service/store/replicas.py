"""Replicas of a server on one PostgreSQL: the choice of the leader, and their notifications. Only this imports psycopg.

The leader holds an advisory lock with a separate connection. If its process ends or its connection breaks, the next
replica that asks PostgreSQL gets the lock.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from packager.service.store.databases import CHANNEL, FROZEN, KEEPALIVES, LEADING, AwayError, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

PAUSE = 2.0
"""The seconds between two attempts to become the leader, and between two checks of the leader's connection."""

_ALIVE_SECONDS = 5.0


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, TimeoutError) as error:
        raise AwayError(f"the database does not answer: {error}") from None


@asynccontextmanager
async def _connected(conninfo: str, **more: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Yield a connection with the settings `databases.settings`. Raises AwayError."""
    with _translated():
        connection = await psycopg.AsyncConnection.connect(make_conninfo(conninfo, **KEEPALIVES), autocommit=True)
    try:
        with _translated():
            await connection.execute(settings(**more).encode())
            yield connection
    finally:
        await connection.close()


async def lead(conninfo: str, work: Callable[[], Awaitable[None]], pause: float = PAUSE) -> None:
    """Wait until this replica is the leader, and then run `work` while it stays the leader.

    Args:
        conninfo: The address of the database.
        work: Called when this replica is the leader, and cancelled when it no longer is.
        pause: The seconds between two attempts, and between two checks of the connection.

    Raises:
        AwayError: The connection is broken, and another replica may be the leader now.
    """
    async with _connected(conninfo, idle_session_timeout=FROZEN) as connection:
        while True:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", (LEADING,))
            row = await cursor.fetchone()
            if row and row[0]:
                break
            await asyncio.sleep(pause)
        working = asyncio.ensure_future(work())
        try:
            while not working.done():
                async with asyncio.timeout(_ALIVE_SECONDS):
                    await connection.execute("SELECT 1")
                await asyncio.wait([working], timeout=pause)
            await working
        finally:
            working.cancel()
            await asyncio.wait([working])


async def listen(conninfo: str, heard: Callable[[str | None], None]) -> None:
    """Call `heard` with the release of each job that has an event, until the connection breaks.

    The first call is with None, because earlier notifications were not received.

    Raises:
        AwayError: The connection is broken.
    """
    async with _connected(conninfo) as connection:
        await connection.execute(f"LISTEN {CHANNEL}")
        heard(None)
        async for notice in connection.notifies():
            heard(notice.payload)
