"""Sends HTTP requests and streams their bodies in both directions: the only importer of urllib3.

A server may send anything: each answer has a limit of time, in all and of silence; who reads a body limits its size.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import math
import os
import ssl
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import urllib3
from urllib3 import exceptions

from packager import __version__
from packager.base.errors import ToolError, VerificationError, reason
from packager.base.problems import show
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
    """Shows the progress of a file: takes its name and its bytes, yields a function for the bytes received."""

BUSY = (408, 429, 500, 502, 503, 504)
"""The statuses after which a request is sent again."""

PIECE = 1 << 20
"""The bytes of a body that are in memory at a time."""

SECONDS = 120.0
"""The seconds in which a request has to be answered, beside those for the bytes of a large body."""

_SLOWEST = 32 << 10
"""The bytes of a large body that a server has to send or take in a second."""

_MOVED = (301, 302, 303, 307, 308)
_MOST_MOVES = 5
_PORTS = {"http": 80, "https": 443}
_LONGEST_URL = 8 << 10


class HttpError(ToolError):
    """A request has failed."""

    def __init__(self, where: str, why: str, *, hint: str | None = None, join: str = ": ") -> None:
        super().__init__(f"{where}{join}{why}", hint=hint)
        self.why = why  # the reason alone, for another sentence


class TransientError(HttpError):
    """A request has failed in a way that another try may repair."""

    seconds: float | None = None  # after which the server wants to be asked again; None if it did not say so


class OtherProtocolError(HttpError):
    """The server does not speak TLS."""


class Network(Value, frozen=True):
    """The way to the network."""

    ca_file: str | None = None  # certificates of authorities that are trusted in addition to the system's
    proxies: tuple[str, ...] = ("http", "https")  # the schemes for which proxies of the environment are used
    silent: float = 60.0  # the seconds that a server may be silent
    show: Callable[[str], object] = lambda _line: None  # receives a line about each request, without secrets
    sleep: Callable[[float], object] = time.sleep  # waits between two tries


class Content(Value, frozen=True):
    """The body of a request: bytes, or a part of a file."""

    source: bytes | Path
    size: int
    start: int = 0  # the offset of the first byte in the file
    advance: Callable[[int], object] = lambda _size: None  # receives the number of bytes of each piece that was sent

    def pieces(self, end: float = math.inf) -> Iterator[bytes]:
        """Yield the bytes until `end`, of `time.monotonic`. Raises ToolError if the file is shorter than it was."""
        with io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb") as stream:
            stream.seek(self.start)
            left = self.size
            while left:
                piece = stream.read(min(left, PIECE))
                if not piece:
                    raise ToolError(f"{self.source!s} became shorter while it was sent")
                if time.monotonic() > end:
                    raise TimeoutError
                yield piece
                left -= len(piece)
                self.advance(len(piece))


class Address(Value, frozen=True):
    """The parts of a URL."""

    scheme: str
    host: str  # without brackets
    port: int
    target: str  # the path with its query

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
        return self.text.partition("?")[0]


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
    """An answer whose body is read once."""

    def __init__(self, response: urllib3.BaseHTTPResponse, url: Address, end: float) -> None:
        self.status = response.status
        self.url = url  # the address that has sent it
        self.length: int | None = getattr(response, "length_remaining", None)  # of the body; None if not announced
        self._response = response
        self._end = end

    def header(self, name: str) -> str:
        """Return a header; empty if there is none."""
        return self._response.headers.get(name, "")

    def pieces(self, size: int = PIECE) -> Iterator[bytes]:
        """Yield the body in pieces. Raises HttpError if it is cut off or comes too slowly."""
        with _translated(self.url, self._end):
            while piece := self._response.read1(size, decode_content=False):
                if time.monotonic() > self._end:
                    raise TimeoutError
                yield piece

    def read(self, limit: int, what: str) -> bytes:
        """Return the body. Raises ToolError if it has more than `limit` bytes, and the errors of `pieces`."""
        content = bytearray()
        for piece in self.pieces():
            content += piece
            if len(content) > limit:
                raise HttpError(self.url.shown, f"{what} has more than {limit >> 10:,} KiB")
        return bytes(content)

    def location(self) -> Address:
        """Return the address in the header Location. Raises ToolError if there is none, or it is less safe."""
        if not self.header("location"):
            raise HttpError(self.url.shown, "names no address for the next request", join=" ")
        place = address(self.header("location"), self.url.text)
        if self.url.scheme == "https" and place.scheme != "https":
            raise HttpError(self.url.shown, f"leads to an address without encryption: {place.shown}", join=" ")
        return place


class HttpTransport:
    """Sends requests, and keeps connections for the next ones."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._tls: ssl.SSLContext | None = None
        self._managers: dict[tuple[str, str], urllib3.PoolManager] = {}
        self._reached: set[tuple[str, str, int]] = set()

    def close(self) -> None:
        """Close all connections."""
        for manager in self._managers.values():
            manager.clear()

    @contextmanager
    def opened(  # noqa: PLR0913 - what makes a request
        self,
        method: str,
        url: Address,
        headers: Mapping[str, str],
        content: Content | None = None,
        *,
        authorization: str | None = None,
        follows: bool = False,
        size: int = 0,
        seconds: float | None = None,
    ) -> Iterator[Response]:
        """Send a request and yield the answer, whatever its status is.

        `authorization` is the header of this name, which is sent to the server at `url` and to no other. `follows`
        follows redirects. `size` is of the bytes that the answer may have; its time depends on them, beside `seconds`,
        SECONDS by default.

        Raises:
            TransientError: The connection broke, or the server was silent.
            OtherProtocolError: The server does not speak TLS.
            ToolError: The server cannot be reached, is not the one of this name, sends too slowly, or redirects more
                often than `_MOST_MOVES` times.
        """
        end = time.monotonic() + (SECONDS if seconds is None else seconds)
        end += (size + (content.size if content else 0)) / _SLOWEST
        place = url
        for _ in range(_MOST_MOVES + 1):
            secret = {"Authorization": authorization} if authorization and place.origin == url.origin else {}
            raw = self._sent(method, place, {**headers, **secret}, content, end)
            try:
                response = Response(raw, place, end)
                if not follows or response.status not in _MOVED:
                    yield response
                    return
                place = response.location()
            finally:
                if getattr(raw, "length_remaining", None) == 0:
                    raw.read1(1)  # marks the body as read, so that the connection is kept
                raw.close()
                raw.release_conn()
        raise HttpError(url.authority, f"redirects more than {_MOST_MOVES} times", join=" ")

    def _sent(
        self, method: str, url: Address, headers: Mapping[str, str], content: Content | None, end: float
    ) -> urllib3.BaseHTTPResponse:
        every = {"User-Agent": f"mlpack/{__version__}", "Accept-Encoding": "identity", **headers}
        if content is not None:
            every["Content-Length"] = str(content.size)
        silent, left = self._network.silent, end - time.monotonic()
        with _translated(url, end, is_new=url.origin not in self._reached):
            if left <= 0:
                raise TimeoutError
            manager = self._manager(url.scheme, _proxy(url) if url.scheme in self._network.proxies else "")
            response = manager.urlopen(
                method,
                url.text,
                body=None if content is None else content.pieces(end),
                headers=every,
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=urllib3.Timeout(total=None if left == math.inf else left, connect=silent, read=silent),
            )
        self._reached.add(url.origin)
        self._network.show(f"{method} {url.shown}: {response.status}")
        return response

    def _manager(self, scheme: str, proxy: str) -> urllib3.PoolManager:
        """Return the connections by a scheme, through a proxy if there is one."""
        if (scheme, proxy) not in self._managers:
            if scheme == "https" and self._tls is None:
                self._tls = trusted(self._network.ca_file)
            options: dict[str, Any] = {"ssl_context": self._tls} if scheme == "https" else {}
            if proxy:
                parts = urllib.parse.urlsplit(proxy)
                pair = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password or '')}"
                login = urllib3.make_headers(proxy_basic_auth=pair) if parts.username is not None else None
                manager: urllib3.PoolManager = urllib3.ProxyManager(proxy, proxy_headers=login, **options)
            else:
                manager = urllib3.PoolManager(**options)
            self._managers[scheme, proxy] = manager
        return self._managers[scheme, proxy]


def download(
    url: str, part: Path, sha256: str | None, *, limit: int, progress: Progress = lambda *_: nullcontext(lambda _: None)
) -> str:
    """Fetch the file at `url` into the file `part`, and return its digest; `limit` is the most bytes to accept.

    The bytes in `part` are kept for the next attempt if the digest is known and the server continues after them.
    """
    if sha256 is None:
        part.unlink(missing_ok=True)
    transport = HttpTransport(Network())
    try:
        with part.open("ab") as stream:
            begin = stream.tell()
            headers = {"Range": f"bytes={begin}-"} if begin else {}
            with transport.opened("GET", address(url), headers, follows=True, size=limit) as answer:
                if answer.status != 206:
                    stream.truncate(0)
                if answer.status != 416 or not begin:
                    _receive(answer, stream, limit, partial(progress, url))
    except OSError as error:
        raise ToolError(f"{url} could not be fetched: {reason(error)}") from None
    except ToolError as error:
        why = error.why if isinstance(error, HttpError) else str(error)
        hint = "try again: what has come is kept" if isinstance(error, TransientError) else error.hint
        raise ToolError(f"{url} could not be fetched: {why}", hint=hint) from None
    finally:
        transport.close()
    digest = digest_of(part)
    if sha256 in (None, digest):
        return digest
    part.unlink()
    if begin:  # the beginning may be of something else
        return download(url, part, sha256, limit=limit, progress=progress)
    raise VerificationError(f"{url} has changed: expected sha256 {sha256}, found {digest}")


def _receive(
    answer: Response,
    stream: IO[bytes],
    limit: int,
    progress: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> None:
    """Write the body of an answer to the end of a file."""
    if answer.status not in (200, 206):
        raise ToolError(f"{answer.status} {http.client.responses.get(answer.status, '')}".rstrip())
    count = stream.seek(0, os.SEEK_END)
    if count + (answer.length or 0) > limit:
        raise ToolError(f"it has more than {limit:,} bytes")
    with progress(count + (answer.length or 0)) as advance:
        advance(count)
        for piece in answer.pieces():
            count += stream.write(piece)
            if count > limit:
                raise ToolError(f"it has more than {limit:,} bytes")
            advance(len(piece))


def digest_of(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def trusted(ca_file: str | None) -> ssl.SSLContext:
    """Return the settings of TLS: the authorities of the system, and those in a file."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError):
            raise ToolError(f"{ca_file} cannot be read as certificates") from None
    return context


def _proxy(url: Address) -> str:
    """Return the proxy of the environment for an address; empty for a direct connection."""
    proxies = {} if urllib.request.proxy_bypass(url.authority) else urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all") or ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


@contextmanager
def _translated(url: Address, end: float, *, is_new: bool = False) -> Iterator[None]:
    """Raise the errors of urllib3 as ours; `is_new` if nothing has come from the server before."""
    try:
        yield
    except exceptions.HTTPError as error:
        raise _explained(error, url, end, is_new=is_new) from None
    except (ValueError, OverflowError):  # a chunk's length that is no number, say
        raise TransientError(url.shown, "the response is not valid HTTP") from None
    except TimeoutError:
        raise HttpError(url.shown, "the server has not sent everything in time") from None
    except OSError as error:
        raise TransientError(url.shown, reason(error)) from None


def _explained(error: Exception, url: Address, end: float, *, is_new: bool) -> HttpError:
    is_unreached = isinstance(error, (exceptions.ProxyError, exceptions.ConnectTimeoutError, ValueError))
    if isinstance(error, exceptions.ProxyError):
        error = error.original_error
    if isinstance(error, exceptions.SSLError):
        return _of_tls(error.args[0] if error.args else error, url, is_new=is_new)
    if isinstance(error, exceptions.TimeoutError) and time.monotonic() >= end:
        return HttpError(url.shown, "the server has not sent everything in time")
    cause: Any = error.args[1] if isinstance(error, exceptions.ProtocolError) and len(error.args) > 1 else error
    cause = cause.__cause__ if isinstance(cause, exceptions.ConnectTimeoutError) else cause
    if isinstance(cause, exceptions.ReadTimeoutError):
        why = "timed out"
    elif isinstance(cause, http.client.IncompleteRead | http.client.RemoteDisconnected):
        why = "the response was cut off"
    elif isinstance(cause, OSError):
        why = reason(cause)
    elif is_unreached:
        why = f"the name of the host or the proxy is not valid: {error}"
    else:
        why = "the response is not valid HTTP"
    kind = HttpError if is_unreached and is_new else TransientError
    return kind(url.authority, why, join=" cannot be reached: ") if is_unreached else kind(url.shown, why)


def _of_tls(error: Exception, url: Address, *, is_new: bool) -> HttpError:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"the certificate of {url.host} is not accepted: {error.verify_message or 'unknown reason'}"
        hint = "--ca-file FILE, or SSL_CERT_FILE in the environment, trusts the authority that has signed it"
        return HttpError(url.shown, why, hint=hint)
    why = getattr(error, "reason", None) or ""
    if not is_new:
        return TransientError(url.shown, why.replace("_", " ").lower())
    if "ALERT" in why or why == "UNSUPPORTED_PROTOCOL":  # only a server that speaks TLS sends either
        return HttpError(url.authority, f"no connection by TLS is made: {why.replace('_', ' ').lower()}")
    hint = "--plain-http uses http, without encryption"
    return OtherProtocolError(url.authority, "does not speak TLS", hint=hint, join=" ")
