"""The application: its routes, and its errors as problems of RFC 9457. Tests: service/api/test_document.py."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from litestar import Litestar, MediaType, Response, Router, get
from litestar.datastructures import ResponseHeader, State
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotFoundException
from litestar.openapi import OpenAPIConfig

from packager import __version__
from packager.base.errors import MlpackError, UnreachableError
from packager.base.problems import show
from packager.base.values import Fields, schema
from packager.modelspec.validation import form, validate
from packager.service.api import admin, document, incoming, jobs, registry
from packager.service.api.access import HttpRequest, caller_of, door_of, require_caller, server_of
from packager.service.api.document import PROBLEM
from packager.service.api.limits import Door
from packager.service.failures import TITLES, Failure, counted, of_fault
from packager.service.jobs.kube import RefusedError
from packager.service.store.databases import AwayError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler
    from litestar.types import ControllerRouterHandler, HTTPScope, Message, Receive, Send
    from litestar.types.asgi_types import HTTPResponseStartEvent

    from packager.service.server import Server

Problem = Response[dict[str, object]]
"""A problem of RFC 9457 as an answer."""

MAX_BODY = 512 << 10
"""The greatest length of the body of a request, in bytes."""


def _problem(request: HttpRequest, failure: Failure) -> Problem:
    notes = incoming.notes_of(request.scope)
    notes.refuse(failure)
    body = failure.as_problem(f"/v1/requests/{notes.request}")
    headers = {}
    if failure.retry_after is not None:
        headers["Retry-After"] = str(failure.retry_after)
    if failure.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(body, status_code=failure.status, headers=headers, media_type=PROBLEM)


def refused(request: HttpRequest, error: HTTPException) -> Problem:
    """Return the problem for a path, method, parameter or body that litestar refuses."""
    by_status = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "not-json"}
    detail = str(error.detail)
    extra = getattr(error, "extra", None)
    if error.status_code == 400 and isinstance(extra, list) and extra:
        items = [item for item in extra if isinstance(item, dict)]
        if all(item.get("source") in ("query", "header", "path") for item in items):
            detail = "; ".join(f"{item.get('key')}: {item.get('message')}" for item in items)
            return _problem(request, Failure("invalid-query", detail))
        if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
            return _problem(request, Failure("invalid-json", "expected JSON, found no body"))
        return _problem(request, _in_body(request))
    kind = by_status.get(error.status_code) or ("invalid-json" if error.status_code < 500 else "internal")
    shown = TITLES[kind][1] if kind in ("internal", "invalid-json") else detail
    return _problem(request, Failure(kind, shown))


def _in_body(request: HttpRequest) -> Failure:
    """Return the failure for a body that does not have the type of its route, with all its faults."""
    body = request.route_handler.parsed_fn_signature.parameters.get("data")
    kind = body.annotation if body and isinstance(body.annotation, type) else None
    value = request.scope["state"].get(incoming.BODY)
    if kind is None or not issubclass(kind, Fields) or not isinstance(value, dict):
        return Failure("invalid-body", f"expected {form((), {'type': 'object'})}, found {show(value)}")
    complaints = [of_fault(fault) for fault in validate(value, schema(kind))]
    whole = f"{complaints[0].pointer}: {complaints[0].detail}".removeprefix(": ") if len(complaints) == 1 else None
    return Failure("invalid-body", whole or f"{counted(complaints)} in the body", complaints)


def as_failure(request: HttpRequest, error: Exception) -> Failure | None:
    """Return the failure for an expected error, also of the cluster or the database; None for any other error.

    The message of the database is logged only: it may name hosts, users and files.
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, UnreachableError):
        return Failure("cluster-unreachable", str(error))
    if isinstance(error, AwayError):
        server_of(request.app.state).log(str(error), **incoming.notes_of(request.scope).as_fields())
        return Failure("database-unreachable", "see the log of the server")
    if isinstance(error, RefusedError):
        return Failure("cluster-refused", str(error))
    return None


def _failed(request: HttpRequest, error: Exception) -> Problem:
    """Return the problem for an error; the details of a bug are logged only."""
    if failure := as_failure(request, error):
        return _problem(request, failure)
    server_of(request.app.state).log_bug(error, **incoming.notes_of(request.scope).as_fields())
    detail = str(error) if isinstance(error, MlpackError) else "see the log of the server"
    return _problem(request, Failure("internal", detail))


def make(
    server: Server,
    pages: Sequence[ControllerRouterHandler] = (),
    not_found: Callable[[HttpRequest, HTTPException], Problem | Response[str]] = refused,
) -> Litestar:
    """Return the application of a server; the application starts and stops the server."""

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with server.running():
            yield

    routes = (registry.TemplateRoutes, registry.DefinitionRoutes, jobs.JobRoutes, jobs.all_events, *admin.HANDLERS)
    api = Router("/", route_handlers=routes, guards=[require_caller])
    return _Application(
        route_handlers=[api, _openapi, *pages],
        request_class=incoming.IncomingRequest,
        guards=[incoming.check_head],
        state=State({"server": server, "door": Door(server.limits)}),
        lifespan=[lifespan],
        dependencies={"caller": Provide(caller_of), "server": Provide(server_of, sync_to_thread=False)},
        response_headers=[ResponseHeader(name="X-Content-Type-Options", value="nosniff")],
        exception_handlers={NotFoundException: not_found, HTTPException: refused, Exception: _failed},
        request_max_body_size=MAX_BODY,
        openapi_config=OpenAPIConfig(
            title="mlpack task service",
            version=__version__,
            openapi_router=Router("/schema", route_handlers=[], include_in_schema=False, guards=[_absent]),
            use_handler_docstrings=True,
        ),
        logging_config=None,
    )


async def _absent(
    _request: ASGIConnection[BaseRouteHandler, object, object, State], _handler: BaseRouteHandler
) -> None:
    """Refuse litestar's own views of the OpenAPI document, which load scripts from other sites."""
    raise NotFoundException


class _Application(Litestar):
    """An application that removes the prefix of paths, and counts and logs all answers, also without a route."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or a message about the start and the end of the server."""
        answer = self._answer if scope["type"] == "http" else super().__call__
        await answer(scope, receive, send)

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        server, door, begun = server_of(self.state), door_of(self.state), time.perf_counter()
        scope = _without_prefix(incoming.without_nul(scope), server.root)
        incoming.begin(scope)

        async def measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                door.answered(scope)
                await door.hold_back(scope)
                seconds = time.perf_counter() - begun
                server.figures.answered(scope["method"], scope.get("path_template"), message["status"], seconds)
                incoming.write(server, scope, message)
                message = _not_kept(_below_prefix(message, server.root))
            await send(message)

        try:
            await super().__call__(scope, receive, measured)
        finally:
            door.left(scope)


def _without_prefix(scope: HTTPScope, root: str) -> HTTPScope:
    """Return a request without the prefix in its path; a proxy may already have removed the prefix."""
    path, raw = scope["path"], scope["raw_path"]
    if not root or not f"{path}/".startswith(f"{root}/"):
        return scope
    return {**scope, "path": path.removeprefix(root) or "/", "raw_path": raw.removeprefix(root.encode()) or b"/"}


def _below_prefix(message: HTTPResponseStartEvent, root: str) -> HTTPResponseStartEvent:
    """Return the start of an answer, with the prefix added to a location on this server."""
    if not root:
        return message
    headers = [
        (name, root.encode() + value if name == b"location" and value[:1] == b"/" != value[1:2] else value)
        for name, value in message.get("headers", ())
    ]
    return {**message, "headers": headers}


def _not_kept(message: HTTPResponseStartEvent) -> HTTPResponseStartEvent:
    """Return the start of an answer that browsers and proxies must not keep, unless its route has decided otherwise.

    Without this header, a proxy may keep the answer to a request with `x-api-key`, and send it to other callers.
    """
    headers = list(message.get("headers", ()))
    if not any(name.lower() == b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-store"))
    return {**message, "headers": headers}


@get("/openapi.json", include_in_schema=False, sync_to_thread=True)
def _openapi(request: HttpRequest) -> Response[bytes]:
    """Return the OpenAPI document."""
    return Response(document.content(request.app, server_of(request.app.state).root), media_type=MediaType.JSON)
