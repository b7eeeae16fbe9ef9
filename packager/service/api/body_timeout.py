"""Limits the time in which the body of a request must arrive, so that slow clients do not occupy the server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from packager.service.failures import Failure

if TYPE_CHECKING:
    from litestar.types import Receive, ReceiveMessage

SECONDS = 30.0
"""The seconds in which a body must arrive, from the first wait for a part of it."""


def bounded(receive: Receive) -> Receive:
    """Return a function that receives the parts of a request, and raises Failure if the body is late."""
    end: float | None = None
    is_complete = False

    async def receive_in_time() -> ReceiveMessage:
        nonlocal end, is_complete
        if is_complete:  # the next message is the end of the connection, for which streams wait
            return await receive()
        end = end or asyncio.get_running_loop().time() + SECONDS
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise Failure("too-slow", f"the body has not arrived within {SECONDS:g} s") from None
        is_complete = not message.get("more_body", False)
        return message

    return receive_in_time
