"""Sends HTTP requests and streams their bodies in both directions: the importer of http.client for registries.

A server may send anything: each response is read in pieces, and one that is too slow is given up.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import base64
import http.client
import io
import socket
import ssl
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast

from packager import __version__
from packager.base.errors import ToolError, reason
from packager.base.problems import show
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

BUSY = (408, 429, 500, 502, 503, 504)
"""The statuses after which a request is sent again."""

PIECE = 1 << 20
"""The bytes of a body that are in memory at a time."""

_SLOW_SECONDS = 60.0
_SLOW_BYTES = 64 << 10
"""A server that sends less than this in that time is given up."""

_HEADER_BYTES = 1 << 20
"""The most bytes of a response that come before its body."""

_PORTS = {"http": 80, "https": 443}
_LONGEST_URL = 8 << 10


class TransientError(ToolError):
    """A request failed in a way that another try may repair.

    Args:
        message: The error.
        seconds: The seconds after which the server wants to be asked again; None if it did not say so.
        hint: The fix for the user.
    """

    def __init__(self, message: str, seconds: float | None = None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.seconds = seconds


class OtherProtocolError(ToolError):
    """The server does not speak TLS."""


class Network(Value, frozen=True):
    """The way to the network.

    Attributes:
        ca_file: Certificates of authorities that are trusted in addition to the system's.
        resolve: Returns the IP addresses of a server to connect to, or raises to forbid the server; it is called for
            each connection, also after redirects. None leaves this to the system, and uses the proxies of the
            environment.
        silent: The seconds that a server may be silent.
        seconds: The time limit for everything; None for none.
        show: Receives a line about each request; a line contains no secret.
        sleep: Waits between two tries.
    """

    ca_file: str | None = None
    resolve: Callable[[Address], Sequence[str]] | None = None
    silent: float = 60.0
    seconds: float | None = None
    show: Callable[[str], object] = lambda _line: None
    sleep: Callable[[float], object] = time.sleep


class Content(Value, frozen=True):
    """The body of a request: bytes, or a part of a file.

    Attributes:
        source: The bytes or the file.
        size: The number of bytes.
        start: The offset of the first byte in the file.
        advance: Receives the number of bytes of each piece that was sent.
    """

    source: bytes | Path
    size: int
    start: int = 0
    advance: Callable[[int], object] = lambda _size: None

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes. Raises ToolError if the file is shorter than it was."""
        if isinstance(self.source, bytes):
            yield self.source
            return
        left = self.size
        with self.source.open("rb") as stream:
            stream.seek(self.start)
            while left:
                piece = stream.read(min(left, PIECE))
                if not piece:
                    raise ToolError(f"{self.source} became shorter while it was sent")
                left -= len(piece)
                yield piece


class Address(Value, frozen=True):
    """The parts of a URL: the scheme, the host without brackets, the port, and the path with its query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """The server: credentials for one server are sent to no other."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host and the port as the header Host names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        """The URL."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def shown(self) -> str:
        """The URL without its query, which may contain secrets."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


def address(url: str, base: str = "") -> Address:
    """Return the parts of a URL of http or https, which may be relative to `base`. Raises ToolError for others."""
    try:
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(base, url))
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        scheme, host, port = "", "", None
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST_URL
    if scheme not in _PORTS or not host or not is_plain or parts.username is not None:
        raise ToolError(f"expected an http or https address, found {show(url.partition('?')[0])}")
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    return Address(scheme, host, port or _PORTS[scheme], target)


class Response:
    """A response: its status, its headers in lower case, and its body, which is read once.

    Attributes:
        status: The HTTP status.
        headers: The headers; those that come several times are joined by commas.
        url: The address that has sent it.
    """

    def __init__(self, response: http.client.HTTPResponse, url: Address) -> None:
        self.status = response.status
        self.headers = {name.lower(): ", ".join(response.headers.get_all(name, [])) for name in response.headers}
        self.url = url
        self._response = response

    def header(self, name: str) -> str:
        """Return a header; empty if there is none."""
        return self.headers.get(name, "")

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces. Raises TransientError if it is cut off or comes too slowly."""
        with _translated(self.url):
            while piece := self._response.read1(PIECE):
                yield piece
        if self._response.length:
            raise TransientError(f"{self.url.shown}: the response was cut off")

    def read(self, limit: int, what: str) -> bytes:
        """Return the body. Raises ToolError if it has more than `limit` bytes, and the errors of `pieces`."""
        content = bytearray()
        for piece in self.pieces():
            content += piece
            if len(content) > limit:
                raise ToolError(f"{self.url.shown}: {what} has more than {limit >> 10:,} KiB")
        return bytes(content)


class HttpTransport:
    """Sends requests, and keeps connections for the next ones.

    Args:
        network: The way to the network.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._end = None if network.seconds is None else time.monotonic() + network.seconds
        self._tls: ssl.SSLContext | None = None
        self._kept: dict[tuple[str, str, int], http.client.HTTPConnection] = {}
        self._reached: set[tuple[str, str, int]] = set()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._kept.values():
            connection.close()
        self._kept.clear()

    def has_time(self, seconds: float) -> bool:
        """Whether the time limit is further away than `seconds`."""
        return self._end is None or self._end - time.monotonic() > seconds

    @contextmanager
    def opened(
        self,
        method: str,
        url: Address,
        headers: Mapping[str, str],
        content: Content | None = None,
        *,
        seconds: float | None = None,
    ) -> Iterator[Response]:
        """Send a request and yield the response, whatever its status is; redirects are not followed.

        Args:
            method: The HTTP method.
            url: The address.
            headers: The headers beside those that every request has.
            content: The body; None for none.
            seconds: The seconds that the server may be silent, if it needs more than others.

        Raises:
            TransientError: The connection broke, or the server sends too slowly.
            OtherProtocolError: The server does not speak TLS.
            ToolError: The server cannot be reached, or is not the one of this name.
        """
        connection = self._kept.pop(url.origin, None)
        if connection is None:
            connection = self._connected(url)
        cast("_Timed", connection.sock).seconds = seconds or self._network.silent
        response, is_kept = None, False
        try:
            with _translated(url):
                response = self._exchanged(connection, method, url, headers, content)
            self._network.show(f"{method} {url.shown}: {response.status}")
            yield Response(response, url)
            is_kept = (response.isclosed() or response.length == 0) and not response.will_close
        finally:
            if response is not None:
                response.close()
            if is_kept:
                self._kept[url.origin] = connection
            else:
                connection.close()

    def _exchanged(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        url: Address,
        headers: Mapping[str, str],
        content: Content | None,
    ) -> http.client.HTTPResponse:
        """Send a request, and return the response without its body."""
        timed = cast("_Timed", connection.sock)
        is_proxied = url.scheme == "http" and self._proxy(url) is not None
        connection.putrequest(method, url.text if is_proxied else url.target, skip_host=True, skip_accept_encoding=True)
        every = {"Host": url.authority, "User-Agent": f"mlpack/{__version__}", "Accept-Encoding": "identity"}
        for name, value in {**every, **self._proxy_headers(url), **headers}.items():
            connection.putheader(name, value)
        if content is not None or method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(content.size if content else 0))
        connection.endheaders()
        if content is not None:
            try:
                for piece in content.pieces():
                    connection.send(piece)
                    content.advance(len(piece))
            except OSError:  # the server may have answered before the end of the body
                with suppress(OSError, http.client.HTTPException):
                    return _begun(connection, timed)
                raise
        return _begun(connection, timed)

    def _proxy_headers(self, url: Address) -> dict[str, str]:
        proxy = self._proxy(url)
        return _proxy_authorization(proxy) if proxy is not None and url.scheme == "http" else {}

    def _proxy(self, url: Address) -> urllib.parse.SplitResult | None:
        """Return the proxy of the environment for an address; None for a direct connection."""
        if self._network.resolve is not None or urllib.request.proxy_bypass(url.authority):
            return None
        proxies = urllib.request.getproxies()
        proxy = proxies.get(url.scheme) or proxies.get("all")
        if not proxy:
            return None
        try:
            parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            is_valid = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            message = f"the environment's proxy for {url.scheme} is not the address of a proxy of http"
            raise ToolError(message, hint="such as http://proxy.example.com:3128")
        return parts

    def _connected(self, url: Address) -> http.client.HTTPConnection:
        """Return a new connection. Raises as `opened`."""
        connection = http.client.HTTPConnection(url.host, url.port)
        try:
            connected = self._socket(url)
            if url.scheme == "https":
                connected.settimeout(self._within(self._network.silent))
                connected = self._context().wrap_socket(connected, server_hostname=url.host)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message or "unknown reason"
            message = f"{url.shown}: the certificate of {url.host} is not accepted: {why}"
            raise ToolError(message, hint="--ca-file FILE trusts the authority that has signed it") from None
        except ssl.SSLError as error:
            why = error.reason or ""
            if "ALERT" in why or why == "UNSUPPORTED_PROTOCOL":  # only a server that speaks TLS sends either
                message = f"{url.authority}: no connection by TLS is made: {why.replace('_', ' ').lower()}"
                raise ToolError(message) from None
            raise OtherProtocolError(
                f"{url.authority} does not speak TLS", hint="--plain-http uses http, without encryption"
            ) from None
        except OSError as error:
            message = f"{url.authority} cannot be reached: {reason(error)}"
            raise (TransientError if url.origin in self._reached else ToolError)(message) from None
        self._reached.add(url.origin)
        cast("Any", connection).sock = _Timed(connected, self._end)
        return connection

    def _socket(self, url: Address) -> socket.socket:
        """Return a connection to a server, or through a proxy."""
        proxy = self._proxy(url)
        if proxy is None:
            hosts = [url.host] if self._network.resolve is None else self._network.resolve(url)
            return self._first_reached([(host, url.port) for host in hosts])
        connected = self._first_reached([(proxy.hostname or "", proxy.port or 80)])
        if url.scheme == "http":
            return connected
        try:
            self._open_tunnel(connected, proxy, url)
        except BaseException:
            connected.close()
            raise
        return connected

    def _open_tunnel(self, connected: socket.socket, proxy: urllib.parse.SplitResult, url: Address) -> None:
        """Let a proxy connect to a server. Raises OSError if it does not."""
        timed = _Timed(connected, self._end)
        timed.seconds = self._network.silent
        tunnel = http.client.HTTPConnection(proxy.hostname or "", proxy.port or 80)
        tunnel.sock = cast("Any", timed)
        tunnel.putrequest("CONNECT", f"{url.host}:{url.port}", skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": f"{url.host}:{url.port}", **_proxy_authorization(proxy)}.items():
            tunnel.putheader(name, value)
        tunnel.endheaders()
        response = http.client.HTTPResponse(cast("Any", timed), method="CONNECT")
        try:
            response.begin()
        except (http.client.HTTPException, ValueError):
            response.close()
            raise OSError(f"the proxy {proxy.hostname} has sent no valid response") from None
        except OSError:
            response.close()
            raise
        if response.status != http.HTTPStatus.OK:
            response.close()
            raise OSError(f"the proxy has answered with status {response.status}")

    def _first_reached(self, hosts: Sequence[tuple[str, int]]) -> socket.socket:
        """Return a connection to the first address that accepts one. Raises OSError of the last."""
        refusal = OSError("it has no address")
        for host in hosts:
            try:
                return socket.create_connection(host, self._within(self._network.silent))
            except UnicodeError:  # a part of the name is empty, or longer than 63 characters
                refusal = OSError("it is not the name of a host")
            except OSError as error:
                refusal = error
        raise refusal

    def _within(self, seconds: float) -> float:
        return seconds if self._end is None else max(min(seconds, self._end - time.monotonic()), 0.001)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = trusted(self._network.ca_file)
        return self._tls


def trusted(ca_file: str | None) -> ssl.SSLContext:
    """Return the settings of TLS: the authorities of the system, and those in a file.

    Raises:
        ToolError: The file cannot be read as certificates.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError):
            raise ToolError(f"{ca_file} cannot be read as certificates") from None
    return context


def _begun(connection: http.client.HTTPConnection, timed: _Timed) -> http.client.HTTPResponse:
    """Return the next response on a connection, of which this is the socket, after its headers."""
    response = connection.getresponse()
    timed.end_headers()
    return response


def _proxy_authorization(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


class _Timed:
    """A socket whose responses must neither stop nor come too slowly; http.client uses it like any other.

    Attributes:
        seconds: The seconds that the server may be silent.
    """

    def __init__(self, connected: socket.socket, end: float | None) -> None:
        self.seconds = 0.0
        self._socket = connected
        self._end = end
        self._incoming: _Incoming | None = None

    def end_headers(self) -> None:
        """Let the response that is being read be as long as it wants from now on."""
        if self._incoming is not None:
            self._incoming.is_in_headers = False

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(_left(self.seconds, self._end))
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> IO[bytes]:
        raw = self._socket.makefile("rb", buffering=0)
        self._incoming = _Incoming(self._socket, raw, self.seconds, self._end)
        return io.BufferedReader(self._incoming)

    def close(self) -> None:
        self._socket.close()


class _Incoming(io.RawIOBase):
    """The bytes of one response.

    Attributes:
        is_in_headers: Whether the next bytes belong to its headers, or to the answers before it.
    """

    def __init__(self, connected: socket.socket, raw: Any, seconds: float, end: float | None) -> None:
        super().__init__()
        self._socket = connected
        self._raw = raw
        self._seconds = seconds
        self._end = end
        self._since: float | None = None
        self._received = 0
        self.is_in_headers = True
        self._headers = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(_left(self._seconds, self._end))
        count = int(self._raw.readinto(buffer))
        now = time.monotonic()
        if self._since is None:
            self._since = now
        self._received += count
        if self.is_in_headers:  # http.client skips any number of answers with status 100
            self._headers += count
            if self._headers > _HEADER_BYTES:
                raise OSError("its headers have no end")
        if now - self._since > _SLOW_SECONDS:
            if self._received < _SLOW_BYTES:
                raise TimeoutError(f"it sends less than {_SLOW_BYTES:,} bytes a minute")
            self._since, self._received = now, 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(seconds: float, end: float | None) -> float:
    """Return the seconds that the next step may take. Raises ToolError if there are none."""
    if end is None:
        return seconds
    left = end - time.monotonic()
    if left <= 0:
        raise ToolError("the registry has not sent everything in time")
    return min(seconds, left)


@contextmanager
def _translated(url: Address) -> Iterator[None]:
    try:
        yield
    except http.client.HTTPException as error:
        is_cut = isinstance(error, http.client.IncompleteRead | http.client.RemoteDisconnected)
        raise TransientError(f"{url.shown}: the response {'was cut off' if is_cut else 'is not valid HTTP'}") from None
    except (ValueError, OverflowError):  # a chunk's length that is no number, say
        raise TransientError(f"{url.shown}: the response is not valid HTTP") from None
    except OSError as error:
        raise TransientError(f"{url.shown}: {reason(error)}") from None
