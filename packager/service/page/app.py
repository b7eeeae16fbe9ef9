"""The application with the page: its routes, and its errors as views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Litestar, Response, Router, get, post
from litestar.params import FromPath

from packager.base import rest
from packager.service.access import permissions, tokens
from packager.service.api import app, incoming
from packager.service.api.access import (
    CallerDependency,
    HttpRequest,
    ServerDependency,
    require_caller,
    require_origin,
    server_of,
)
from packager.service.failures import TITLES, Failure
from packager.service.page import jobs, new, registry, runs, sign_in
from packager.service.page.html import failed, redirect, respond, static_file
from packager.service.registry.bodies import TokenBody, checked

if TYPE_CHECKING:
    from litestar.exceptions import HTTPException

    from packager.service.server import Server


def _refused(request: HttpRequest, failure: Failure) -> Response[str]:
    if failure.status == 401:
        query = f"?{request.url.query}" if request.url.query else ""
        then = request.url.path + query if request.method == "GET" else "/jobs"
        return redirect(f"/sign-in{rest.path(then=then)}")
    notes = incoming.notes_of(request.scope)
    notes.refuse(failure)
    return failed(server_of(request.app.state), failure, notes.caller)


def _failed(request: HttpRequest, error: Exception) -> Response[str]:
    """Return the view of an expected error, an error of litestar, or a bug; the details of a bug are logged only."""
    if failure := app.as_failure(request, error):
        return _refused(request, failure)
    status = getattr(error, "status_code", 500)
    by_status = {400: "invalid-query", 404: "not-found", 405: "method-not-allowed", 413: "too-large"}
    if status in by_status:
        kind = by_status[status]
        return _refused(request, Failure(kind, "this page does not exist" if status == 404 else TITLES[kind][1]))
    server_of(request.app.state).log_bug(error, **incoming.notes_of(request.scope).as_fields())
    caller = incoming.notes_of(request.scope).caller
    return failed(server_of(request.app.state), Failure("internal", "see the log of the server"), caller)


def _not_found(request: HttpRequest, error: HTTPException) -> app.Problem | Response[str]:
    """Return an error view to browsers for an unknown path; other clients get a problem."""
    is_browser = "text/html" in request.headers.get("accept", "")
    return _failed(request, error) if is_browser else app.refused(request, error)


def make(server: Server) -> Litestar:
    """Return the application of a server with its page; the application starts and stops the server."""
    handlers = (*HANDLERS, *jobs.HANDLERS, *runs.HANDLERS, *new.HANDLERS, *registry.HANDLERS)
    known = Router("/", route_handlers=handlers, guards=[require_caller])
    pages = Router(
        "/",
        route_handlers=[known, static_file, *sign_in.HANDLERS],
        before_request=require_origin,
        exception_handlers={Exception: _failed},
    )
    return app.make(server, [pages], _not_found)


@get("/overview", include_in_schema=False)
async def overview(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show what runs, what waits and why, and what has failed."""
    after = await server.events.position()
    return await respond(request, caller, "overview", overview=await server.project_use.overview(caller), after=after)


@get("/tokens", include_in_schema=False)
async def show_tokens(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show the tokens, to admins."""
    return await _tokens(request, server, caller)


async def _tokens(
    request: HttpRequest, server: ServerDependency, caller: CallerDependency, status: int = 200, **values: object
) -> Response[str]:
    permissions.check_role(caller, "admin")
    shown = {"made": None, "failure": None, "filled": {}, **values}
    failure = shown["failure"]
    errors: dict[str, list[str]] = {key: [] for key in ("name", "role", "project", "days")}
    for complaint in failure.complaints if isinstance(failure, Failure) else ():
        errors.setdefault(complaint.pointer[1:], []).append(complaint.detail)
    return await respond(
        request,
        caller,
        "tokens",
        status,
        items=(await server.tokens.read(caller)).items,
        roles=tokens.ROLES,
        projects=server.project_use.names(caller, "admin"),
        errors=errors,
        **shown,
    )


@post("/tokens", include_in_schema=False)
async def add_token(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Create a token from a form, and show it once."""
    form = {key: str(value).strip() for key, value in (await request.form()).items()}
    try:
        days = form.get("days")
        whole = int(days) if days and days.isdecimal() and len(days) < 9 else days or None
        body = checked(
            {"name": form.get("name"), "role": form.get("role"), "days": whole, "project": form.get("project") or None},
            TokenBody,
        )
        made = await server.tokens.add(caller, body)
    except Failure as failure:
        if failure.status != 422:
            raise
        return await _tokens(request, server, caller, failure.status, failure=failure, filled=form)
    return await _tokens(request, server, caller, 201, made=made)


@post("/tokens/{identifier:str}/remove", include_in_schema=False)
async def remove_token(server: ServerDependency, caller: CallerDependency, identifier: FromPath[str]) -> Response[str]:
    """Remove a token."""
    await server.tokens.remove(caller, identifier)
    return redirect("/tokens")


HANDLERS = (overview, show_tokens, add_token, remove_token)
"""The routes."""
