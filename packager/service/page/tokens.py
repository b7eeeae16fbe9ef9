"""The view of the tokens, for admins."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath

from packager.service.access import tokens
from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.failures import Failure
from packager.service.page.html import redirect, respond
from packager.service.registry.bodies import TokenBody, checked


@get("/tokens", include_in_schema=False)
async def _tokens(request: HttpRequest, state: State) -> Response[str]:
    return await _listed(request, state)


async def _listed(request: HttpRequest, state: State, status: int = 200, **values: object) -> Response[str]:
    shown = {"made": None, "failure": None, "filled": {}, **values}
    failure = shown["failure"]
    errors: dict[str, list[str]] = {key: [] for key in ("name", "role", "project", "days")}
    for complaint in failure.complaints if isinstance(failure, Failure) else ():
        errors.setdefault(complaint.pointer[1:], []).append(complaint.detail)
    caller = await caller_of(request)
    items = (await server_of(state).tokens.read(caller)).items
    projects = server_of(state).project_use.names(caller, "admin")
    return await respond(
        request,
        "tokens",
        status,
        role="admin",
        items=items,
        roles=tokens.ROLES,
        projects=projects,
        errors=errors,
        **shown,
    )


@post("/tokens", include_in_schema=False)
async def _add_token(request: HttpRequest, state: State) -> Response[str]:
    form = {key: str(value).strip() for key, value in (await request.form()).items()}
    try:
        days = form.get("days")
        whole = int(days) if days and days.isdecimal() and len(days) < 9 else days or None
        body = checked(
            {"name": form.get("name"), "role": form.get("role"), "days": whole, "project": form.get("project") or None},
            TokenBody,
        )
        made = await server_of(state).tokens.add(await caller_of(request), body)
    except Failure as failure:
        if failure.status != 422:
            raise
        return await _listed(request, state, failure.status, failure=failure, filled=form)
    return await _listed(request, state, 201, made=made)


@post("/tokens/{identifier:str}/remove", include_in_schema=False)
async def _remove_token(request: HttpRequest, state: State, identifier: FromPath[str]) -> Response[str]:
    await server_of(state).tokens.remove(await caller_of(request), identifier)
    return redirect("/tokens")


HANDLERS = (_tokens, _add_token, _remove_token)
"""The routes."""
