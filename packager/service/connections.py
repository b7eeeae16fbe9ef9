"""Limits the number of connections, in total and from each address, and ends idle and slow connections."""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from packager.service.fair_queues import count_down

if TYPE_CHECKING:
    import asyncio

    from packager.service.config import LimitsConfig

HEAD_SECONDS = 10.0
"""The seconds that a client has to send the head of a request, after the start of the connection or the last response.
Also the seconds for which the rest of a body is read when the response came before its end."""

READ_SECONDS = 60.0
"""The seconds for which a client may leave a response unread."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def limited(limits: LimitsConfig) -> type[H11Protocol]:
    """Return the class of connections for uvicorn, with its own counters and these limits."""
    return type("Connection", (_Connection,), {"limits": limits, "open": Counter()})


class _Connection(H11Protocol):
    """A connection that counts itself and has time limits.

    Attributes:
        limits: The limits of the server.
        open: The number of open connections from each address.
    """

    limits: ClassVar[LimitsConfig]
    open: ClassVar[Counter[str]]
    _address: str | None = None
    _timer: asyncio.TimerHandle | None = None
    _reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it with status 503 if there are too many."""
        super().connection_made(transport)
        # asyncio does so only for sockets created with a protocol number. Without it, the body of each response waits
        # until the client acknowledges the head: 40 ms on Linux.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = _network(self.client)
        is_full = len(self.connections) > self.limits.connections
        if is_full or self.open[address] >= self.limits.address_connections:
            self._end(_FULL)
            return
        self._address = address
        self.open[address] += 1
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and stop counting the connection."""
        super().connection_lost(exc)
        self._stop_waiting()
        self.resume_writing()
        if self._address is not None:
            count_down(self.open, self._address)
            self._address = None

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; stop the timer for the head when the request has begun."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_at_work():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Start the timer for the head of the next request."""
        super().on_response_complete()
        if not self._is_at_work():
            self._wait_for_head()

    def pause_writing(self) -> None:
        """Start the timer for the client to read."""
        super().pause_writing()
        self._reading_timer = self._reading_timer or self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the timer for the client to read."""
        super().resume_writing()
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _is_at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_slow(self) -> None:
        """End a connection without a complete request; send status 408 if the first request has begun."""
        self._timer = None
        has_begun = self.cycle is None and bool(self.conn.trailing_data[0])
        self._end(_SLOW if has_begun else b"")

    def _end(self, answer: bytes) -> None:
        if answer:
            self.transport.write(answer)
        self.transport.close()


def _network(client: tuple[str, int] | None) -> str:
    """Return the key by which connections of a client are counted: the IPv4 address or the IPv6 network (/64)."""
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
