"""Checks requests before a route reads them: bodies as JSON and as forms, paths, queries and cookies."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from litestar import Request
from litestar.datastructures import FormMultiDict, State

from packager.base import jsonio
from packager.service.failures import Failure
from packager.service.work import Owner

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler
    from litestar.types import HTTPScope, Scope
    from litestar.types.asgi_types import HTTPResponseStartEvent

    from packager.base.values import Json
    from packager.service.access.tokens import Caller
    from packager.service.server import Server


_ON_THE_LOOP = 4 << 10
"""The greatest length in bytes of a body that is parsed without a thread: starting a thread takes longer."""

MOST_BYTES = "most-bytes"
"""The key, in `opt` of a route, of the greatest length of a body in bytes, without spaces and needless escapes."""

BODY = "mlpack-body"
"""The key of the parsed body in the state of a request."""

_MOST_INPUTS = 2_000
"""The most inputs in a form."""

_LONGEST_HEADER = 16 << 10
_MOST_PARTS = 64
"""The greatest length in bytes of a query or the cookies, and the most parts: litestar caches the last 1,024 parsed
queries and cookies."""

_REFUSALS = {jsonio.JsonSizeError: "too-large", jsonio.JsonContentError: "invalid-body"}


class IncomingRequest(Request[object, object, State]):
    """A request whose body is JSON that `jsonio` accepts, or a form of a page."""

    async def json(self) -> Json:
        """Return the value in the body. Raises Failure."""
        content = await self.body()
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content and kind != "application/json":
            raise Failure("not-json", f"expected application/json, found {kind[:80] or 'no content type'}")
        most: int = self.route_handler.opt.get(MOST_BYTES, len(content))
        if len(content) > most and jsonio.shortest(content) > most:
            raise Failure("too-large", f"expected at most {most >> 10} KiB")
        server: Server = self.app.state.server
        caller: Caller | None = notes_of(self.scope).caller
        try:
            if len(content) <= _ON_THE_LOOP or caller is None:
                value: Json = jsonio.read(content)
            else:
                value = await server.work.run(Owner(caller.key), partial(jsonio.read, content))
        except jsonio.JsonError as error:
            raise Failure(_REFUSALS.get(type(error), "invalid-json"), str(error)) from None
        self.scope["state"][BODY] = value
        return value

    async def form(self) -> FormMultiDict:
        """Return the inputs of a form in the encoding of browsers. Raises Failure."""
        if self._form is None or not isinstance(self._form, FormMultiDict):
            kind = self.headers.get("content-type", "application/x-www-form-urlencoded").partition(";")[0]
            if kind.strip().lower() != "application/x-www-form-urlencoded":
                raise Failure("not-json", f"expected a form, found {kind[:80]}")
            content = await self.body()
            if content.count(b"&") >= _MOST_INPUTS:
                raise Failure("too-large", f"expected at most {_MOST_INPUTS:,} inputs, found more")
            if b"\0" in content or b"%00" in content:
                raise Failure("invalid-body", "an input has the character NUL")
            pairs = await asyncio.to_thread(parse_qsl, content.decode(errors="replace"), keep_blank_values=True)
            self._form = FormMultiDict(pairs)
        return self._form


def without_nul(scope: HTTPScope) -> HTTPScope:
    """Return a request with U+FFFD for each NUL character in its path and query.

    PostgreSQL refuses to search for NUL, which no stored text contains.
    """
    path, query = scope["path"], scope["query_string"]
    if "\0" not in path and b"%00" not in query:
        return scope
    return {**scope, "path": path.replace("\0", "\ufffd"), "query_string": query.replace(b"%00", b"%EF%BF%BD")}


async def check_head(
    request: ASGIConnection[BaseRouteHandler, object, object, State], _handler: BaseRouteHandler
) -> None:
    """Refuse a query or cookies that are longer than those of our clients, before parsing. Raises Failure."""
    query, cookies = request.scope["query_string"], request.headers.get("cookie", "").encode(errors="replace")
    for name, content, separator in (("query", query, b"&"), ("cookies", cookies, b";")):
        if len(content) > _LONGEST_HEADER or content.count(separator) >= _MOST_PARTS:
            most = f"{_LONGEST_HEADER >> 10} KiB and {_MOST_PARTS} parts"
            raise Failure("invalid-query", f"{name}: expected at most {most}")


_KEY = "mlpack"
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST = 1_000
"""The most characters of a path, and of the reason of a refusal, in a line: anyone may send a path of 64 KiB."""


@dataclass(slots=True)
class Notes:
    """The notes on a request, for the log and for its problem."""

    # the id of the request, which is also in the problem that answers the request
    request: str = field(default_factory=lambda: secrets.token_hex(8))
    caller: Caller | None = None  # the caller; None if not identified
    refusal: str = ""  # the reason of a refusal; empty for a request that is not refused

    def refuse(self, failure: Failure) -> None:
        """Store the reason of a refusal."""
        self.refusal = f"{failure.kind}: {failure}"

    def as_fields(self) -> dict[str, str]:
        """Return the fields of log lines about the request."""
        who = {} if self.caller is None else {"caller": self.caller.name, "key": self.caller.key}
        return {"request": self.request, **who}


def begin(scope: HTTPScope) -> None:
    """Create the notes on a request."""
    scope.setdefault("state", {})[_KEY] = Notes()


def notes_of(scope: Scope) -> Notes:
    """Return the notes on a request."""
    notes: Notes = scope["state"][_KEY]
    return notes


def write(server: Server, scope: HTTPScope, start: HTTPResponseStartEvent) -> None:
    """Write the line of a request, if it changes something or is refused."""
    notes, status = notes_of(scope), start["status"]
    if scope["method"] in _SAFE and status < 400:
        return
    place = next((value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"location"), "")
    parts = (f"{scope['method']} {scope['path']}"[:_MOST], f"{status} {notes.refusal or place}".rstrip()[:_MOST])
    server.log(": ".join(parts), **notes.as_fields())
