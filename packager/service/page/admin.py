"""The views of projects and tokens, and the overview, which is first. Tests: service/page/test_overview.py."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.params import FromPath

from packager.service.access import permissions, tokens
from packager.service.api.access import CallerDependency, HttpRequest, ServerDependency
from packager.service.failures import Failure
from packager.service.page.html import redirect, respond
from packager.service.registry.bodies import TokenBody, checked


@get("/overview", include_in_schema=False)
async def overview(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show what runs, what waits and why, and what has failed."""
    after = await server.events.position()
    return await respond(request, caller, "overview", overview=await server.project_use.overview(caller), after=after)


@get("/projects", include_in_schema=False)
async def projects(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show the projects: their limits and their current use."""
    use = server.project_use
    items = [await use.use(caller, name) for name in use.names(caller, "viewer")]
    return await respond(request, caller, "projects", items=items, after=await server.events.position())


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


HANDLERS = (overview, projects, show_tokens, add_token, remove_token)
"""The routes."""
