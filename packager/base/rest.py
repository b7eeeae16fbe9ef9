"""Sends requests to one REST server: to no other host, without redirects, and with bounded answers."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packager import __version__
from packager.base.errors import ClusterError, UnreachableError, UsageError, reason
from packager.base.problems import show
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES = 32 << 20
"""The bytes of an answer; a log is read in parts."""

_SECONDS = 30.0
"""The seconds that a server may be silent."""

_ANSWER_SECONDS = 60.0
"""The seconds that an answer may take in all."""

_LOG_SECONDS = 600.0
"""The seconds that a followed log may be silent."""

_CHUNK = 64 << 10
_MAX_TOKEN = 8 << 10


class RestServer(Value, frozen=True):
    """A server, and the token that identifies the caller.

    Attributes:
        url: The address, without a slash at the end.
        token: The caller's token; None for none. It is in no message.
    """

    url: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"RestServer({self.url!r})"


class Answer(Value, frozen=True):
    """The answer of a server.

    Attributes:
        status: The HTTP status.
        kind: The content type, in lower case and without parameters.
        body: The JSON in it; None if it is not JSON.
        retry_after: The seconds after which to try again, if the server says so.
    """

    status: int
    kind: str
    body: Any = None
    retry_after: float | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the request was accepted."""
        return 200 <= self.status < 300


def server(url: str, token: str | None, *, is_insecure: bool = False) -> RestServer:
    """Return the server at `url`.

    Args:
        url: The address: https, or http on this machine.
        token: The caller's token.
        is_insecure: Whether http is accepted for other machines too.

    Raises:
        UsageError: The address or the token is not valid, or others could read the requests.
    """
    parts = _parts(url)
    if parts is None:
        raise UsageError(f"invalid server {show(_without_password(url))}: expected an address, such as https://host")
    if parts.scheme == "http" and not is_insecure and not is_loopback(parts.hostname or ""):
        raise UsageError(
            f"{url} sends the token, and all values, without encryption",
            hint="use https, or --insecure where the network is your own",
        )
    if token is not None and not (token.isascii() and token.isprintable() and 0 < len(token) <= _MAX_TOKEN):
        raise UsageError(f"the token is not valid: expected one line of at most {_MAX_TOKEN} ASCII characters")
    return RestServer(url.rstrip("/"), token)


def _parts(url: str) -> urllib.parse.SplitResult | None:
    """Return the parts of an address that has a host, perhaps a port and a path, and nothing else."""
    try:
        parts = urllib.parse.urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        return None
    is_plain = url.isascii() and url.isprintable() and " " not in url and not {"?", "#", "@", "\\"} & {*url}
    return parts if is_plain and has_port and parts.scheme in ("http", "https") and parts.hostname else None


def _without_password(url: str) -> str:
    return f"...@{url.rpartition('@')[2]}" if "@" in url else url


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, as only its own programs reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def basic(user: str, password: str) -> str:
    """Return the header `Authorization` of OAuth 2.0 (RFC 6749, section 2.3.1), which quotes both parts."""
    pair = f"{urllib.parse.quote_plus(user)}:{urllib.parse.quote_plus(password)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def path(*steps: str, **query: str | int | None) -> str:
    """Return a path whose steps may contain any character, with the parameters that are not None."""
    text = "".join(f"/{urllib.parse.quote(step, safe='')}" for step in steps)
    parameters = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
    return f"{text}?{parameters}" if parameters else text


def ask(
    to: RestServer, method: str, where: str, body: Any = None, *, headers: Mapping[str, str] | None = None
) -> Answer:
    """Send a request, and return the answer, whatever its status is.

    Args:
        to: The server.
        method: The HTTP method.
        where: The path, with its parameters (`path`).
        body: The value to send as JSON; None for nothing.
        headers: Further headers.

    Raises:
        UnreachableError: The server does not answer.
        ClusterError: The server redirects, sends too much, sends too slowly, or sends invalid JSON.
    """
    data = None if body is None else json.dumps(body, ensure_ascii=True).encode()
    sent = {} if body is None else {"Content-Type": "application/json"}
    with _opened(to, method, where, data, {**sent, **(headers or {})}, _SECONDS) as response:
        return _answer(to, response)


def post_form(
    to: RestServer, where: str, form: Mapping[str, str], *, headers: Mapping[str, str], seconds: float
) -> Answer:
    """Send a form, as OAuth 2.0 has it, and return the answer.

    Args:
        to: The server.
        where: The path, with its parameters.
        form: The fields of the form.
        headers: Further headers.
        seconds: The seconds that the server may be silent.

    Raises:
        UnreachableError: The server does not answer.
        ClusterError: The server redirects, sends too much, sends too slowly, or sends invalid JSON.
    """
    data = urllib.parse.urlencode(form).encode()
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    with _opened(to, "POST", where, data, sent, seconds) as response:
        return _answer(to, response)


def _answer(to: RestServer, response: Any) -> Answer:
    content = _read(to, response)
    kind = _kind(response)
    retry_after = response.headers.get("Retry-After", "")
    return Answer(
        response.status,
        kind,
        _json(to, content) if _is_json(kind) else None,
        float(retry_after) if retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 6 else None,
    )


@contextmanager
def opened(to: RestServer, where: str) -> Iterator[Answer | Iterator[bytes]]:
    """Ask for a text, and give it in parts as it comes; the whole answer if it is not a text. Raises as `ask`."""
    with _opened(to, "GET", where, None, {"Accept": "text/plain"}, _LOG_SECONDS) as response:
        kind = _kind(response)
        if response.status == 200 and kind == "text/plain":
            yield _parts_of(to, response)
        else:
            content = _read(to, response)
            yield Answer(response.status, kind, _json(to, content) if _is_json(kind) else None)


def _parts_of(to: RestServer, response: Any) -> Iterator[bytes]:
    """Yield whole lines, so that no character is cut in two; of a long line, parts."""
    kept = b""
    while chunk := _translated_read(to, response):
        kept += chunk
        end = len(kept) if len(kept) > _CHUNK else kept.rfind(b"\n") + 1
        if end:
            yield kept[:end]
            kept = kept[end:]
    if kept:
        yield kept


def _kind(response: Any) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


@contextmanager
def _opened(  # noqa: PLR0913, PLR0917 - what makes a request
    to: RestServer, method: str, where: str, data: bytes | None, headers: Mapping[str, str], seconds: float
) -> Iterator[Any]:
    sent = {"Accept": "application/json", "User-Agent": f"mlpack/{__version__}", **headers}
    if to.token is not None:
        sent["Authorization"] = f"Bearer {to.token}"
    request = urllib.request.Request(to.url + where, data, sent, method=method)  # noqa: S310 - `server` checks it
    with _translated(to):
        response = _opener().open(request, timeout=seconds)
    with response:
        if 300 <= response.status < 400:
            place = show(str(response.headers.get("Location", "")))
            raise ClusterError(
                f"{to.url} redirects to {place}", hint="nothing was sent there; give the right address with --server"
            )
        yield response


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener of http and https that follows no redirect, and returns answers of every status.

    Proxies of the environment are used for https alone, where they see neither the token nor the rest.
    """
    opener = urllib.request.OpenerDirector()
    proxies = {name: proxy for name, proxy in urllib.request.getproxies().items() if name == "https"}
    for handler in (
        urllib.request.ProxyHandler(proxies),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _read(to: RestServer, response: Any) -> bytes:
    end = time.monotonic() + _ANSWER_SECONDS
    content = bytearray()
    while chunk := _translated_read(to, response):
        content += chunk
        if len(content) > MAX_BYTES:
            raise ClusterError(f"the answer of {to.url} has more than {MAX_BYTES >> 20} MiB")
        if time.monotonic() > end:
            raise ClusterError(f"the answer of {to.url} is not complete after {_ANSWER_SECONDS:.0f} s")
    if response.length:
        raise UnreachableError(f"the answer of {to.url} was cut off")
    return bytes(content)


def _translated_read(to: RestServer, response: Any) -> bytes:
    with _translated(to):
        return bytes(response.read1(_CHUNK))


def _json(to: RestServer, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ClusterError(f"the answer of {to.url} is not valid JSON") from None


@contextmanager
def _translated(to: RestServer) -> Iterator[None]:
    try:
        yield
    except urllib.error.URLError as error:
        cause = reason(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
        raise UnreachableError(f"{to.url} does not answer: {cause}") from None
    except http.client.HTTPException as error:
        is_cut = isinstance(error, http.client.IncompleteRead | http.client.RemoteDisconnected)
        problem = "was cut off" if is_cut else "is not valid HTTP"
        raise UnreachableError(f"the answer of {to.url} {problem}") from None
    except OSError as error:
        raise UnreachableError(f"{to.url} does not answer: {reason(error)}") from None
