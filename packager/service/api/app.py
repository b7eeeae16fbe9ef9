"""The application: its routes, and its errors as problems of RFC 9457."""

from __future__ import annotations

import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Response, get
from litestar.datastructures import ResponseHeader, State
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig

from packager import __version__
from packager.base.errors import MlpackError, UnreachableError
from packager.service.api import callbacks, events, jobs, logs, metrics, projects, registry, system
from packager.service.api.access import AnyRequest, server_of
from packager.service.api.document import PROBLEM, document
from packager.service.failures import RETRY_SECONDS, TITLES, Failure
from packager.service.kube import RefusedError
from packager.service.store.databases import AwayError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from litestar.types import ControllerRouterHandler

    from packager.service.server import Server

MAX_BODY = 512 << 10
"""How long the body of a request may be."""


def _problem(request: AnyRequest, failure: Failure) -> Response[Any]:
    body = failure.as_problem(f"/v1/requests/{secrets.token_hex(8)}")
    headers = {}
    if failure.status in RETRY_SECONDS:
        headers["Retry-After"] = str(RETRY_SECONDS[failure.status])
    if failure.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    server_of(request.app.state).log(f"{request.method} {request.url.path}: {failure.status} {failure.kind}: {failure}")
    return Response(body, status_code=failure.status, headers=headers, media_type=PROBLEM)


def _refused(request: AnyRequest, error: HTTPException) -> Response[Any]:
    """Answer what litestar refuses: a path, a method, a parameter, a body."""
    by_status = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "not-json"}
    detail = str(error.detail)
    extra = getattr(error, "extra", None)
    if error.status_code == 400 and isinstance(extra, list) and extra:
        items = [item for item in extra if isinstance(item, dict)]
        detail = "; ".join(f"{item.get('key', 'body')}: {item.get('message')}" for item in items)
        in_query = all(item.get("source") in ("query", "header", "path") for item in items)
        return _problem(request, Failure("invalid-query" if in_query else "invalid-body", detail))
    kind = by_status.get(error.status_code) or ("invalid-json" if error.status_code < 500 else "internal")
    shown = TITLES[kind][1] if kind in ("internal", "invalid-json") else detail
    return _problem(request, Failure(kind, shown))


def _failed(request: AnyRequest, error: Exception) -> Response[Any]:
    """Answer an error of ours, or a bug: nothing of it leaves the server."""
    if isinstance(error, Failure):
        return _problem(request, error)
    if isinstance(error, UnreachableError):
        return _problem(request, Failure("cluster-unreachable", str(error)))
    if isinstance(error, AwayError):
        return _problem(request, Failure("database-unreachable", str(error)))
    if isinstance(error, RefusedError):
        return _problem(request, Failure("cluster-refused", str(error)))
    server_of(request.app.state).log_bug(error)
    hint = str(error) if isinstance(error, MlpackError) else "see the log of the server"
    return _problem(request, Failure("internal", hint))


async def _require_json(request: AnyRequest) -> None:
    """Refuse a body that is not JSON. Raises Failure."""
    length = request.headers.get("content-length", "0")
    has_body = length != "0" or "transfer-encoding" in request.headers
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method in ("POST", "PUT") and has_body and kind != "application/json":
        raise Failure("not-json", f"expected application/json, found {kind[:80] or 'no content type'}")


def make(server: Server, pages: Sequence[ControllerRouterHandler] = ()) -> Litestar:
    """Return the application of a server, which it starts and stops.

    Args:
        server: The server.
        pages: The routes of pages for people.
    """

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with server.running():
            yield

    return _Measured(
        route_handlers=[
            *registry.HANDLERS,
            *jobs.HANDLERS,
            *callbacks.HANDLERS,
            *logs.HANDLERS,
            *metrics.HANDLERS,
            *events.HANDLERS,
            *projects.HANDLERS,
            *system.HANDLERS,
            _openapi,
            *pages,
        ],
        state=State({"server": server}),
        lifespan=[lifespan],
        before_request=_require_json,
        response_headers=[ResponseHeader(name="X-Content-Type-Options", value="nosniff")],
        exception_handlers={HTTPException: _refused, Exception: _failed},
        request_max_body_size=MAX_BODY,
        openapi_config=OpenAPIConfig(
            title="mlpack task service",
            version=__version__,
            path="/schema",
            render_plugins=[],
            use_handler_docstrings=True,
        ),
        logging_config=None,
    )


class _Measured(Litestar):
    """An application that counts its answers, also those to requests that have no route."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        figures, begun = server_of(self.state).figures, time.perf_counter()

        async def measured(message: Any) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - begun
                figures.answered(scope["method"], scope.get("path_template"), message["status"], seconds)
            await send(message)

        with figures.request():
            await super().__call__(scope, receive, measured)


@get("/openapi.json", include_in_schema=False)
async def _openapi(request: AnyRequest) -> dict[str, Any]:
    """Return the OpenAPI document."""
    return document(request.app)
