"""Identifies callers, and recognizes repeated requests. Tests: service/test_refusals.py."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Annotated, TypeVar

from litestar import Request, Response
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, SkipValidation

from packager.base.rest import is_loopback
from packager.service.access import permissions, sign_in, tokens
from packager.service.access.tokens import Caller
from packager.service.api import incoming
from packager.service.failures import Failure
from packager.service.server import Server
from packager.service.store.models import RequestKey

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler

    from packager.service.api.limits import Door

Body = TypeVar("Body")

_LONGEST_KEY = 255

HttpRequest = Request[object, object, State]
"""A request over HTTP, as the routes and the views get it."""

ServerDependency = NamedDependency[SkipValidation[Server]]
CallerDependency = NamedDependency[SkipValidation[Caller]]
"""The server, and the caller of a request, as a route gets them."""

IfMatch = Annotated[str | None, HeaderParameter(name="If-Match", description="The revision that is to be changed.")]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(name="Idempotency-Key", description="The same key and body make one job."),
]


def server_of(state: State) -> Server:
    """Return the server of an application from its state."""
    server: Server = state.server
    return server


def door_of(state: State) -> Door:
    """Return the door of an application from its state."""
    door: Door = state.door
    return door


ANONYMOUS = "anonymous"
"""The option of a route that anyone may call."""


async def require_caller(
    request: ASGIConnection[BaseRouteHandler, object, object, State], handler: BaseRouteHandler
) -> None:
    """Identify the caller of a request and let the request in, before its body is read; see `Door`. Raises Failure."""
    if not handler.opt.get(ANONYMOUS):
        assert isinstance(request, Request)
        caller = request.state.caller = await _identified(request)
        await door_of(request.app.state).enter(request, caller)


async def caller_of(request: HttpRequest) -> Caller:
    """Return the caller of a request, who must have a role in at least one project. Raises Failure."""
    known: Caller | None = request.state.pop("caller", None)  # used once: a stream identifies its caller again
    caller = known or await _identified(request)
    permissions.check_role(caller, "viewer")
    return caller


async def _identified(request: HttpRequest) -> Caller:
    """Return the caller that a token or the cookie of a session identifies. Raises Failure."""
    server = server_of(request.app.state)
    if server.trusted is not None:
        if not is_loopback(request.url.hostname or ""):  # DNS rebinding: a foreign name with this address
            raise Failure("forbidden", "without tokens, the server answers requests to this machine only")
        if "origin" in request.headers:
            require_origin(request)
        incoming.notes_of(request.scope).caller = server.trusted
        return server.trusted
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    text = text.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    cookie = request.cookies.get(sign_in.COOKIE, "")
    if text and server.issuer is not None and not text.startswith(tokens.PREFIX):
        caller: Caller | None = await server.issuer.caller(text)
    elif text or not cookie:
        caller = await asyncio.to_thread(tokens.caller, server.store, text) if text else None
    else:
        require_origin(request)  # a browser adds the cookie to requests of other sites, too
        caller = await server.sessions.caller(cookie)
    if caller is None:
        raise Failure("unauthenticated", "expected a valid token, as Authorization: Bearer or as x-api-key")
    incoming.notes_of(request.scope).caller = caller
    return caller


def require_origin(request: HttpRequest) -> None:
    """Refuse a request that changes something and was not made by a page of this server. Raises Failure."""
    if request.scope.get("method") in ("GET", "HEAD", "OPTIONS"):
        return
    origin = request.headers.get("origin", "").lower()
    scheme, _, host = origin.partition("://")
    own = server_of(request.app.state).origin
    if scheme not in ("http", "https") or (host != request.headers.get("host", "").lower() and origin != own):
        raise Failure("forbidden", "the request was not made by a page of this server: its Origin is another one")


def expected_revision(if_match: str | None) -> int | None:
    """Return the revision in If-Match; None for any. Raises Failure."""
    text = (if_match or "*").strip().removeprefix("W/").strip('"')
    if text == "*":
        return None
    if not text.isdecimal() or len(text) > 9:
        raise Failure("revision-mismatch", 'If-Match: expected a revision, such as "3"')
    return int(text)


async def request_key(request: HttpRequest, caller: Caller, key: str | None) -> RequestKey | None:
    """Return the idempotency key of a request, which belongs to the caller and the path. Raises Failure if too long."""
    if key is None:
        return None
    if not 0 < len(key) <= _LONGEST_KEY:
        raise Failure("invalid-query", f"Idempotency-Key: expected at most {_LONGEST_KEY} characters")
    whole = [sorted(caller.roles), caller.key, request.method, request.url.path, request.url.query, key]
    return RequestKey(
        hashlib.sha256(json.dumps(whole).encode()).hexdigest(), hashlib.sha256(await request.body()).hexdigest()
    )


def created(body: Body, path: str) -> Response[Body]:
    """Return the answer to a request that has created what is at `path`."""
    return Response(body, status_code=201, headers={"Location": path})


def tagged(body: Body, revision: int) -> Response[Body]:
    """Return an answer whose ETag is a revision."""
    return Response(body, headers={"ETag": f'"{revision}"'})
