"""Sends requests to one REST server: to no other host, without redirects, and with bounded answers."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import re
import urllib.parse
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, ToolError, UnreachableError, UsageError
from packager.base.masking import masked_urls
from packager.base.problems import show
from packager.base.values import Value
from packager.base.web import Content, HttpError, HttpTransport, Network, address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.web import Response

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
    """A server, and the token that identifies the caller."""

    url: str  # without a slash at the end
    token: str | None = None  # it is in no message

    def __repr__(self) -> str:
        return f"RestServer({self.url!r})"


class Answer(Value, frozen=True):
    """The answer of a server."""

    status: int
    kind: str  # the content type, in lower case and without parameters
    body: Any = None  # the JSON in it; None if it is not JSON
    retry_after: float | None = None  # the seconds after which to try again, if the server says so

    @property
    def is_ok(self) -> bool:
        """Whether the request was accepted."""
        return 200 <= self.status < 300


def server(url: str, token: str | None, *, is_insecure: bool = False) -> RestServer:
    """Return the server at `url`: https, or http on this machine, or with `is_insecure` on others too."""
    try:
        place = None if {"?", "#", "@", "\\"} & {*url} else address(url)
    except ToolError:
        place = None
    if place is None:
        expected = "expected an address, such as https://host"
        raise UsageError(f"invalid server {show(masked_urls(url))}: {expected}")
    if place.scheme == "http" and not is_insecure and not is_loopback(place.host):
        raise UsageError(
            f"{url} sends the token, and all values, without encryption",
            hint="use https, or --insecure where the network is your own",
        )
    if token is not None and not (token.isascii() and token.isprintable() and 0 < len(token) <= _MAX_TOKEN):
        raise UsageError(f"the token is not valid: expected one line of at most {_MAX_TOKEN} ASCII characters")
    return RestServer(url.rstrip("/"), token)


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

    Raises UnreachableError if the server does not answer, and ClusterError if it redirects, or sends too much, or
    something else than JSON.
    """
    data = None if body is None else json.dumps(body, ensure_ascii=True).encode()
    sent = {} if body is None else {"Content-Type": "application/json"}
    with _opened(to, method, where, data, {**sent, **(headers or {})}) as response:
        return _answer(to, response)


def post_form(
    to: RestServer, where: str, form: Mapping[str, str], *, headers: Mapping[str, str], seconds: float
) -> Answer:
    """Send a form, as OAuth 2.0 has it, to a server that may be silent for `seconds`; return the answer as `ask`."""
    data = urllib.parse.urlencode(form).encode()
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    with _opened(to, "POST", where, data, sent, silent=seconds) as response:
        return _answer(to, response)


@contextmanager
def opened(to: RestServer, where: str) -> Iterator[Answer | Iterator[bytes]]:
    """Ask for a text, and give it in parts as it comes; the whole answer if it is not a text."""
    with _opened(to, "GET", where, None, {"Accept": "text/plain"}, silent=_LOG_SECONDS, seconds=math.inf) as response:
        is_text = response.status == 200 and _kind(response) == "text/plain"
        yield _lines(response.pieces(_CHUNK)) if is_text else _answer(to, response)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines, so that no character is cut in two; of a long line, parts."""
    kept = b""
    for piece in pieces:
        kept += piece
        end = len(kept) if len(kept) > _CHUNK else kept.rfind(b"\n") + 1
        if end:
            yield kept[:end]
            kept = kept[end:]
    if kept:
        yield kept


def _answer(to: RestServer, response: Response) -> Answer:
    content = response.read(MAX_BYTES, "the answer")
    kind, body = _kind(response), None
    if kind == "application/json" or kind.endswith("+json"):
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise ClusterError(f"the answer of {to.url} is not valid JSON") from None
    pause = response.header("retry-after")
    return Answer(response.status, kind, body, float(pause) if re.fullmatch("[0-9]{1,5}", pause) else None)


def _kind(response: Response) -> str:
    return response.header("content-type").partition(";")[0].strip().lower()


@contextmanager
def _opened(  # noqa: PLR0913 - what makes a request
    to: RestServer,
    method: str,
    where: str,
    data: bytes | None,
    headers: Mapping[str, str],
    *,
    silent: float = _SECONDS,
    seconds: float = _ANSWER_SECONDS,
) -> Iterator[Response]:
    transport = HttpTransport(Network(silent=silent, proxies=("https",)))  # by http, a proxy would see the token
    content = None if data is None else Content(data, len(data))
    authorization = None if to.token is None else f"Bearer {to.token}"
    sent = {"Accept": "application/json", **headers}
    try:
        url = address(to.url + where)
        with transport.opened(method, url, sent, content, authorization=authorization, seconds=seconds) as response:
            if 300 <= response.status < 400:
                message = f"{to.url} redirects to {show(response.header('location'))}"
                raise ClusterError(message, hint="nothing was sent there; give the right address with --server")
            yield response
    except ToolError as error:
        why = error.why if isinstance(error, HttpError) else str(error)
        raise UnreachableError(f"{to.url} does not answer: {why}", hint=error.hint) from None
    finally:
        transport.close()
