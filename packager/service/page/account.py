"""The views to sign in with a token, to sign out, and of the tokens."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery

from packager.base.values import FieldsError, convert
from packager.service import sessions, tokens
from packager.service.api import system
from packager.service.api.access import AnyRequest, caller_of, projects_with, server_of
from packager.service.bodies import TokenBody
from packager.service.page.html import public, redirect, respond


def own_path(text: str) -> str:
    """Return a path of this server, to which a form may lead; the first view in place of anything else."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\", "/sign-")) and text.isprintable()
    return text if is_own and "\\" not in text and len(text) < 2048 else "/jobs"


@get("/", include_in_schema=False)
async def _start() -> Response[Any]:
    return redirect("/jobs")


@get("/sign-in", include_in_schema=False)
async def _sign_in(then: FromQuery[str] = "/jobs") -> Response[Any]:
    return public("sign-in", then=own_path(then), error=None)


@post("/sign-in", include_in_schema=False)
async def _sign_in_with(request: AnyRequest, state: State) -> Response[Any]:
    form = await request.form()
    server = server_of(state)
    then = own_path(str(form.get("then", "")))
    text = str(form.get("token", "")).strip()
    cookie = await asyncio.to_thread(sessions.begin, server.sealer, server.store, text)
    if cookie is None:
        return public("sign-in", 401, then=then, error="The token is not valid, was removed, or has expired.")
    answer = redirect(then)
    answer.set_cookie(
        sessions.COOKIE,
        cookie,
        max_age=sessions.SECONDS,
        httponly=True,
        secure=(server.url or "").startswith("https:") or request.url.scheme == "https",
        samesite="lax",
    )
    return answer


@post("/sign-out", include_in_schema=False)
async def _sign_out() -> Response[Any]:
    answer = redirect("/sign-in")
    answer.delete_cookie(sessions.COOKIE)
    return answer


@get("/tokens", include_in_schema=False)
async def _tokens(request: AnyRequest, state: State) -> Response[Any]:
    return await _listed(request, state)


async def _listed(request: AnyRequest, state: State, status: int = 200, **values: Any) -> Response[Any]:
    shown = {"made": None, "error": None, "filled": {}, **values}
    items = (await system.list_tokens.fn(request, state)).items
    projects = projects_with(state, await caller_of(request, "admin"), "admin")
    return await respond(
        request, "tokens", status, role="admin", items=items, roles=tokens.ROLES, projects=projects, **shown
    )


@post("/tokens", include_in_schema=False)
async def _add_token(request: AnyRequest, state: State) -> Response[Any]:
    form = {key: str(value).strip() for key, value in (await request.form()).items()}
    try:
        days = form.get("days")
        whole = int(days) if days and days.isdecimal() and len(days) < 9 else days or None
        body = convert(
            {"name": form.get("name"), "role": form.get("role"), "days": whole, "project": form.get("project") or None},
            TokenBody,
        )
    except FieldsError:
        error = "Expected a name of at most 63 letters, digits and -_., and 1 to 3650 days or none."
        return await _listed(request, state, 422, error=error, filled=form)
    return await _listed(request, state, 201, made=await system.add_token.fn(request, state, data=body))


@post("/tokens/{identifier:str}/remove", include_in_schema=False)
async def _remove_token(request: AnyRequest, state: State, identifier: FromPath[str]) -> Response[Any]:
    await system.remove_token.fn(request, state, identifier=identifier)
    return redirect("/tokens")


HANDLERS = (_start, _sign_in, _sign_in_with, _sign_out, _tokens, _add_token, _remove_token)
"""The routes."""
