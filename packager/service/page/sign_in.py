"""The views to sign in, with a token or with the issuer, and to sign out."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from litestar import Response, get, post
from litestar.datastructures import State
from litestar.params import FromQuery

from packager.service.access import sign_in
from packager.service.access.sign_in import Attempt, Signed
from packager.service.api import incoming
from packager.service.api.access import HttpRequest, server_of
from packager.service.api.limits import address_of
from packager.service.failures import Failure
from packager.service.page.html import public, redirect
from packager.service.work import Owner

if TYPE_CHECKING:
    from packager.service.access.tokens import Caller
    from packager.service.server import Server

_PATH = "/sign-in"

_MAX_BODY = 16 << 10
"""The greatest length of the form in bytes: anyone may send it."""


def own_path(text: str) -> str:
    """Return a path of this server, to which a form may redirect; `/jobs` instead of any other text."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\", "/sign-")) and text.isprintable()
    return text if is_own and text.isascii() and "\\" not in text and len(text) < 2048 else "/jobs"


@get("/", include_in_schema=False)
async def _start() -> Response[str]:
    return redirect("/overview")


@get(_PATH, include_in_schema=False)
async def _choose(state: State, then: FromQuery[str] = "/jobs", out: FromQuery[str] = "") -> Response[str]:
    return _view(server_of(state), then, is_out=out == "issuer")


def _view(server: Server, then: str, failure: Failure | None = None, **values: object) -> Response[str]:
    """Return the view to sign in, with a token or the issuer.

    Args:
        server: The server.
        then: The path of the view to show after the sign-in.
        failure: The reason of a failed attempt with the issuer.
        values: Further values: `error`, the message about a token; `is_out`, whether one has signed out.
    """
    status = failure.status if failure else 401 if values.get("error") else 200
    issuer = server.client.label if server.client else None
    shown = {"error": None, "is_out": False, **values}
    return public(server, "sign-in", status, then=own_path(then), issuer=issuer, failure=failure, **shown)


@post(_PATH, include_in_schema=False, request_max_body_size=_MAX_BODY)
async def _with_token(request: HttpRequest, state: State) -> Response[str]:
    form = await request.form()
    server = server_of(state)
    then = str(form.get("then", ""))
    begun = await asyncio.to_thread(server.sessions.begin_with_token, str(form.get("token", "")).strip())
    if begun is None:
        return _view(server, then, error="The token is not valid, was removed, or has expired.")
    return _signed_in(request, *begun, then)


@get(f"{_PATH}/issuer", include_in_schema=False)
async def _to_issuer(request: HttpRequest, state: State, then: FromQuery[str] = "/jobs") -> Response[str]:
    server = server_of(state)
    if server.client is None:
        raise Failure("not-found", "this server has no issuer with whom people sign in")
    try:
        address, attempt = await server.client.begin(own_path(then))
    except Failure as failure:
        return _refused(request, server, then, failure)
    answer = redirect(address)
    _set_cookie(request, answer, sign_in.ATTEMPT_COOKIE, server.sessions.cookie(attempt), sign_in.SECONDS)
    return answer


@get(sign_in.PATH, include_in_schema=False)
async def _from_issuer(request: HttpRequest, state: State) -> Response[str]:
    server = server_of(state)
    if server.client is None:
        raise Failure("not-found", "this server has no issuer with whom people sign in")
    attempt = server.sessions.read(request.cookies.get(sign_in.ATTEMPT_COOKIE, ""), Attempt)
    parameters = {key: str(value) for key, value in request.query_params.items()}
    then = attempt.then if attempt else "/jobs"
    try:
        owner = Owner(address_of(request.scope), is_address=True)
        signed = await server.client.finish(attempt, parameters, partial(server.work.run, owner))
        answer = _signed_in(request, server.client.caller(signed), server.sessions.cookie(signed), then)
    except Failure as failure:
        answer = _refused(request, server, then, failure)
    if attempt is not None and attempt.is_answered_by(parameters):  # an answer is accepted once
        answer.delete_cookie(sign_in.ATTEMPT_COOKIE, path=server.root + _PATH)
    return answer


def _refused(request: HttpRequest, server: Server, then: str, failure: Failure) -> Response[str]:
    incoming.notes_of(request.scope).refuse(failure)
    return _view(server, then, failure)


def _signed_in(request: HttpRequest, caller: Caller, cookie: str, then: str) -> Response[str]:
    """Return the answer that begins a session."""
    incoming.notes_of(request.scope).caller = caller
    answer = redirect(own_path(then))
    _set_cookie(request, answer, sign_in.COOKIE, cookie, sign_in.TOKEN_SECONDS)
    return answer


def _set_cookie(request: HttpRequest, answer: Response[str], name: str, value: str, seconds: int) -> None:
    server = server_of(request.app.state)
    answer.set_cookie(
        name,
        value,
        path=server.root + ("" if name == sign_in.COOKIE else _PATH) or "/",
        max_age=seconds,
        httponly=True,
        secure=server.origin.startswith("https:") or request.url.scheme == "https",
        samesite="lax",
    )


@post("/sign-out", include_in_schema=False)
async def _sign_out(request: HttpRequest, state: State) -> Response[str]:
    server = server_of(state)
    is_of_issuer = server.sessions.read(request.cookies.get(sign_in.COOKIE, ""), Signed) is not None
    answer = redirect(f"{_PATH}?out=issuer" if is_of_issuer else _PATH)
    answer.delete_cookie(sign_in.COOKIE, path=server.root or "/")
    return answer


HANDLERS = (_start, _choose, _with_token, _to_issuer, _from_issuer, _sign_out)
"""The routes."""
