"""Sends requests to endpoints of callbacks, which are not trusted, over httpx.

The name of the host is resolved here, and the connection goes to the checked addresses, so a second answer of the name
server has no effect. Redirects are not followed, proxies are not used, and cookies are not stored.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import httpx2

from packager.base.values import Value
from packager.service.callbacks import addresses
from packager.service.callbacks.addresses import IP, InvalidAddressError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from packager.service.callbacks.addresses import Allowed, Receiver

SECONDS = 10.0
"""The time limit of a request, including the resolution of the name."""

_CONNECT_SECONDS = 3.0
_MOST_BYTES = 4 << 10
_MOST_ADDRESSES = 4
_LONGEST_ERROR = 1_000
_RESOLVERS = 20

_BYTES = re.compile(r"bytearray\(b((['\"]).*\2)\)", re.DOTALL)
"""The quotation of received bytes in error messages of h11."""


class Reply(Value, frozen=True):
    """The reply of an endpoint.

    Attributes:
        code: The HTTP status; None without a response.
        error: The reason for a missing response; None with one.
        retry_after: The pause that the endpoint requests, in seconds.
    """

    code: int | None = None
    error: str | None = None
    retry_after: float | None = None


class Transport:
    """Sends requests to permitted addresses.

    Args:
        allowed: The permitted receivers, in addition to public addresses.
        resolve: Returns the addresses of a host, or raises OSError; None for the resolver of the system.
        tls: The trusted certificates; None for those of the system.
        seconds: The time limit of a request.
    """

    def __init__(
        self,
        allowed: Allowed,
        *,
        resolve: Callable[[str, int], Awaitable[list[IP]]] | None = None,
        tls: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self.allowed = allowed
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolver")
        self._resolve = resolve or self._ask_system
        self._seconds = seconds
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._http = httpx2.AsyncHTTPTransport(verify=tls or True, limits=limits)

    async def close(self) -> None:
        """Close all connections."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)
        await self._http.aclose()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a body, and return the reply, also if there is no response."""
        try:
            async with asyncio.timeout(self._seconds):
                target = addresses.parse(url, self.allowed)
                return await self._post(target, await self._addresses(target), headers, body)
        except InvalidAddressError as error:
            return Reply(error=str(error))
        except TimeoutError:
            return Reply(error=f"no answer in {self._seconds:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            return Reply(error=_message(error))

    async def _addresses(self, target: Receiver) -> list[IP]:
        if target.address:
            return addresses.check(target.host, [target.address], self.allowed)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                resolved = await self._resolve(target.host, target.port)
        except (OSError, TimeoutError):
            raise InvalidAddressError(f"the name server does not know {target.host}") from None
        return addresses.check(target.host, resolved, self.allowed)[:_MOST_ADDRESSES]

    async def _ask_system(self, host: str, port: int) -> list[IP]:
        """Ask the resolver of the system, in a separate pool: a slow name server must not block database threads."""
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._resolvers, system_addresses, host, port)
        return await asked

    async def _post(self, target: Receiver, hosts: list[IP], headers: Mapping[str, str], body: bytes) -> Reply:
        for address in hosts:
            try:
                return await self._post_to(address, target, headers, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if address == hosts[-1]:
                    reason = _message(error) if str(error) else "timed out"
                    return Reply(error=f"{target.host} cannot be reached: {reason}")
        return Reply(error=f"{target.host} has no address")

    async def _post_to(self, address: IP, target: Receiver, headers: Mapping[str, str], body: bytes) -> Reply:
        request = self._request(address, target, headers, body)
        response = await self._http.handle_async_request(request)
        try:
            size = 0
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size >= _MOST_BYTES:
                    break
        finally:
            await response.aclose()
        return Reply(response.status_code, retry_after=_retry_after(response.headers.get("retry-after", "")))

    def _request(self, address: IP, target: Receiver, headers: Mapping[str, str], body: bytes) -> httpx2.Request:
        """Return a request to `address` with the name of the host."""
        host = f"[{address}]" if address.version == 6 else str(address)
        return httpx2.Request(
            "POST",
            f"{target.scheme}://{host}:{target.port}{target.path}",
            headers=[(b"Host", target.authority.encode()), *((k.encode(), v.encode()) for k, v in headers.items())],
            content=body,
            extensions={
                "sni_hostname": target.host,
                "timeout": {
                    "connect": _CONNECT_SECONDS,
                    "read": self._seconds,
                    "write": self._seconds,
                    "pool": self._seconds,
                },
            },
        )


def _message(error: Exception) -> str:
    """Return the message of an error of httpx, without the notation of bytes around received data."""
    return _BYTES.sub(r"\1", str(error)[:_LONGEST_ERROR])[:300] or type(error).__name__


def system_addresses(host: str, port: int) -> list[IP]:
    """Return the addresses of a host. Raises OSError if the resolver of the system knows none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries))


def _retry_after(text: str) -> float | None:
    """Return the seconds in a header Retry-After, which may contain a date; None if the header is invalid."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, (date.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
