"""Replicas of a server on one PostgreSQL: which of them leads, and what they tell each other (the importer of psycopg).

The leader holds an advisory lock with a connection of its own. If its process ends, or its connection breaks, the next
replica that asks PostgreSQL gets the lock.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from packager.service.store.databases import CHANNEL, LEADING, RUNNING, AwayError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

PAUSE = 2.0
"""Seconds between two looks at whether this replica leads, or could."""

_ALIVE_SECONDS = 5.0
_KEEPALIVES: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "autocommit": True,
}


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, TimeoutError) as error:
        raise AwayError(f"the database does not answer: {error}") from None


@asynccontextmanager
async def _connected(conninfo: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    with _translated():
        connection = await psycopg.AsyncConnection.connect(conninfo, **_KEEPALIVES)
    try:
        with _translated():
            yield connection
    finally:
        await connection.close()


async def lead(conninfo: str, work: Callable[[], Awaitable[None]], pause: float = PAUSE) -> None:
    """Wait until this replica leads, and then work for as long as it does.

    Args:
        conninfo: The address of the database.
        work: Is run while this replica leads, and cancelled if it no longer does.
        pause: Seconds between two looks.

    Raises:
        AwayError: The connection is broken: another replica may lead now.
    """
    async with _connected(conninfo) as connection:
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


async def listen(conninfo: str, replica: int, heard: Callable[[str | None], None]) -> None:
    """Call `heard` with the release of each job that has an event, until the connection breaks.

    At first it is called with None: what was told before was not heard. The connection holds the lock by which other
    replicas know that this one runs. Raises AwayError.
    """
    async with _connected(conninfo) as connection:
        await connection.execute("SELECT pg_advisory_lock_shared(%s::int, %s::int)", (RUNNING, replica))
        await connection.execute(f"LISTEN {CHANNEL}")
        heard(None)
        async for notice in connection.notifies():
            heard(notice.payload)
