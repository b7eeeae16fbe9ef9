"""The routes of tokens, and of the server itself."""

from __future__ import annotations

from litestar import Response, delete, get, post
from litestar.datastructures import State
from litestar.params import FromPath, JSONBody

from packager.service import prometheus
from packager.service.api import document
from packager.service.api.access import ANONYMOUS, HttpRequest, caller_of, server_of
from packager.service.failures import Failure
from packager.service.registry.bodies import TokenBody
from packager.service.use.answers import (
    Health,
    NewToken,
    TokenList,
    WhoAmI,
)

# tokens, and the server itself


@get("/v1/tokens")
async def list_tokens(request: HttpRequest, state: State) -> TokenList:
    """List the tokens of the projects in which the caller is an admin, without their texts."""
    return await server_of(state).tokens.read(await caller_of(request))


@post("/v1/tokens", status_code=201)
async def add_token(request: HttpRequest, state: State, data: JSONBody[TokenBody]) -> NewToken:
    """Create a token; its text is in this answer only."""
    return await server_of(state).tokens.add(await caller_of(request), data)


@delete("/v1/tokens/{identifier:str}")
async def remove_token(request: HttpRequest, state: State, identifier: FromPath[str]) -> None:
    """Remove a token; requests with it are refused from then on."""
    await server_of(state).tokens.remove(await caller_of(request), identifier)


@get("/v1/whoami")
async def whoami(request: HttpRequest, state: State) -> WhoAmI:
    """Return the caller: name, key, the role in each project, `*` for all projects, and the visible projects."""
    caller = await caller_of(request, "viewer")
    visible = server_of(state).project_use.names(caller, "viewer")
    return WhoAmI(name=caller.name, key=caller.key, roles=dict(caller.roles), projects=visible)


@get("/healthz", opt={ANONYMOUS: True})
async def healthz() -> Health:
    """Answer that the server is running."""
    return Health(status="ok")


@get("/readyz", opt={ANONYMOUS: True}, responses={503: document.answer(Health, "Not ready")})
async def readyz(state: State) -> Response[Health]:
    """Return whether the database and the cluster answer; the cause of a failure is in the log of the server."""
    is_ready = await server_of(state).readiness.is_ready()
    return Response(Health(status="ok" if is_ready else "not ready"), status_code=200 if is_ready else 503)


@get(prometheus.PATH, media_type="text/plain")
async def figures(request: HttpRequest, state: State) -> Response[str]:
    """Return the metrics of this replica for Prometheus; the caller must be a viewer of all projects."""
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
