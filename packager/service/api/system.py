"""The routes of tokens, and of the server itself."""

from __future__ import annotations

import asyncio

from litestar import Response, delete, get, post
from litestar.datastructures import State
from litestar.params import FromPath, JSONBody

from packager.base.values import as_plain
from packager.service import prometheus
from packager.service.access import permissions, tokens
from packager.service.api import document
from packager.service.api.access import ANONYMOUS, AnyRequest, caller_of, server_of
from packager.service.complaints import Complaint
from packager.service.failures import Failure
from packager.service.registry.bodies import TokenBody
from packager.service.use import answers
from packager.service.use.answers import (
    Health,
    NewToken,
    TokenList,
    WhoAmI,
)

# tokens, and the server itself


@get("/v1/tokens")
async def list_tokens(request: AnyRequest, state: State) -> TokenList:
    """List the tokens of the projects whose admin the caller is, without their texts."""
    caller = await caller_of(request, "admin")
    visible = permissions.projects_of(caller, "admin")
    rows = await asyncio.to_thread(server_of(state).store.tokens, visible)
    return TokenList(items=[answers.token(row) for row in rows])


@post("/v1/tokens", status_code=201)
async def add_token(request: AnyRequest, state: State, data: JSONBody[TokenBody]) -> NewToken:
    """Create a token; its text is in this answer only."""
    caller = await caller_of(request, "admin")
    server = server_of(state)
    if data.project is not None and data.project not in server.projects:
        complaint = Complaint("/project", f"project {data.project!r} not found")
        raise Failure("invalid-body", "the project was not found", [complaint])
    if not caller.may("admin", data.project):
        raise Failure("forbidden", f"expected an admin of {data.project or 'all projects'}")
    row, text = await asyncio.to_thread(tokens.create, server.store, data.name, data.role, data.days, data.project)
    return NewToken(**as_plain(answers.token(row)), token=text)


@delete("/v1/tokens/{identifier:str}")
async def remove_token(request: AnyRequest, state: State, identifier: FromPath[str]) -> None:
    """Remove a token, which is refused from now on."""
    caller = await caller_of(request, "admin")
    visible = permissions.projects_of(caller, "admin")
    if not await asyncio.to_thread(server_of(state).store.remove_token, identifier, visible):
        raise Failure("not-found", f"token {identifier!r} not found")


@get("/v1/whoami")
async def whoami(request: AnyRequest, state: State) -> WhoAmI:
    """Return who the caller is: their role in each project, `*` for all projects, and the projects they see."""
    caller = await caller_of(request, "viewer")
    visible = [name for name in server_of(state).projects if caller.may("viewer", name)]
    return WhoAmI(name=caller.name, roles=dict(caller.roles), projects=visible)


@get("/healthz", opt={ANONYMOUS: True})
async def healthz() -> Health:
    """Return that the server answers."""
    return Health(status="ok")


@get("/readyz", opt={ANONYMOUS: True}, responses={503: document.answer(Health, "What does not answer")})
async def readyz(state: State) -> Response[Health]:
    """Return whether the database and the cluster answer."""
    problems = await server_of(state).problems()
    return Response(
        Health(status="not ready" if problems else "ok", problems=problems), status_code=503 if problems else 200
    )


@get(prometheus.PATH, media_type="text/plain")
async def figures(request: AnyRequest, state: State) -> Response[str]:
    """Return the figures of this replica for Prometheus; a viewer of all projects may read them."""
    caller = await caller_of(request, "viewer")
    if not caller.may("viewer"):
        raise Failure("forbidden", "expected a viewer of all projects")
    server = server_of(state)
    text = await server.figures.text(server.store.ping)
    return Response(text.decode(), headers={"Content-Type": prometheus.CONTENT_TYPE})


HANDLERS = (
    list_tokens,
    add_token,
    remove_token,
    whoami,
    healthz,
    readyz,
    figures,
)
"""The routes."""
